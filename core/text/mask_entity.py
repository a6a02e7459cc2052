"""Technique `entity`: typed personal data, by patterns, checksums and context words, and by a tagger. No guarantee.

The technique fails closed: a requested entity without a recogniser, a recogniser that raises and a pattern that times
out are errors, as are an entity that only a tagger finds and that no tagger looked for, results for another text, and
an invalid result. Nothing is skipped with a log line.

Recognisers run in windows of a long text (`core.text.windows`). `find` runs them in one window after another; `search`
and `join` are for windows that run as separate tasks. The model of the tagger runs in another process; its results
arrive as `Tagged`.
"""

import importlib
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.errors import InvalidInput, RecogniserFailed
from core.text.languages import LANGUAGES, guess
from core.text.mask_words import AllowLists
from core.text.ordinary_words import is_no_name, names_nobody
from core.text.policy import ENTITIES, Mask, MaskPolicy
from core.text.recogniser import Hit, Hits, Recogniser, Window, occurrences
from core.text.recognisers.affiliations import public_body
from core.text.recognisers.asked import answers_in
from core.text.recognisers.assistants import Assistants
from core.text.recognisers.named_forms import FORM_SCORE, named_forms, trimmed
from core.text.recognisers.number_words import names_machine, starts_code
from core.text.recognisers.public_names import public_name
from core.text.recognisers.public_values import read_by_all
from core.text.recognisers.secret_values import identifies, placeholder
from core.text.segment import Token
from core.text.windows import Extent, extents, windows

_FULL_WIDTH = range(0xFF01, 0xFF5F)
_FULL_WIDTH_SHIFT = 0xFF01 - 0x21
_MATHEMATICAL = range(0x1D400, 0x1D800)
_BLANKS = (0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)


@cache
def _table() -> dict[int, str]:
    forms = {code: chr(code - _FULL_WIDTH_SHIFT) for code in _FULL_WIDTH} | dict.fromkeys(_BLANKS, " ")
    for code in _MATHEMATICAL:
        plain = unicodedata.normalize("NFKC", chr(code))
        if plain.isascii() and len(plain) == 1:
            forms[code] = plain
    for code in range(0x80, sys.maxunicode + 1):
        if (digit := unicodedata.decimal(chr(code), -1)) >= 0:
            forms[code] = str(digit)
    return forms


def plain_characters(text: str) -> str:
    """Return `text` with ASCII characters for their other forms: full-width forms, mathematical letters, blanks of
    every width, and decimal digits of every script. One character becomes one character, so places in the result are
    those of the text."""
    return text if text.isascii() else text.translate(_table())


@cache
def recognisers() -> dict[str, tuple[Recogniser, ...]]:
    """Return the recognisers of each entity, built once for each process. None of them keeps any text."""
    table: dict[str, tuple[Recogniser, ...]] = {}
    for module in dict.fromkeys(entity.module for entity in ENTITIES.values() if entity.module):
        for recogniser in importlib.import_module(module).recognisers():
            table[recogniser.entity] = (*table.get(recogniser.entity, ()), recogniser)
    return table


def _hits(recogniser: Recogniser, text: str, threshold: float, digits: int) -> Hits:
    failed = False
    try:
        hits = recogniser.hits(text, threshold=threshold, digits=digits)
    except Exception:  # any error: its message and frames may contain the text
        failed = True
    if failed:
        raise RecogniserFailed(entity=recogniser.entity)
    return hits


def _requested(policy: MaskPolicy) -> list[tuple[Recogniser, float]]:
    """Return the recognisers that the policy needs, with their thresholds. Raises InvalidInput if an entity has
    none."""
    requested = {name: score for name, score in policy.requested().items() if not ENTITIES[name].needs_tagger}
    table = recognisers()
    if not requested.keys() <= table.keys():
        supported = ", ".join(name for name in ENTITIES if name in table)
        raise InvalidInput(f"An entity has no recogniser. Supported: {supported}.", field="entities")
    return [(recogniser, score) for entity, score in requested.items() for recogniser in table[entity]]


def search(text: str, policy: MaskPolicy, between: Callable[[], object] = bool) -> tuple[Hits, ...]:
    """Return what each recogniser that the policy needs finds in one window, read in plain characters
    (`plain_characters`), and in its answers to questions. Calls `between` after each recogniser. Names: see
    `find_tagged`.

    Raises InvalidInput for an entity without a recogniser (before any runs), RecogniserFailed.
    """
    requested, text = _requested(policy), Window(plain_characters(text))
    answers = answers_in(text, plain_characters(policy.question))
    labelled = Window(answers.labelled) if answers else ""
    digits = sum(map(str.isdecimal, text))
    found: list[Hits] = []
    for recogniser, threshold in requested:
        hits = _hits(recogniser, text, threshold, digits)
        if answers:
            asked = _hits(recogniser, labelled, threshold, answers.digits)
            hits = Hits([*hits.passed, *answers.placed(recogniser.entity, asked.passed)], hits.weak)
        found.append(hits)
        between()
    return tuple(found)


class JoinedHits(NamedTuple):
    """The hits of one recogniser in a whole text."""

    recogniser: Recogniser
    threshold: float
    hits: Hits


def join(text: str, policy: MaskPolicy, found: Sequence[tuple[Hits, ...]]) -> list[JoinedHits]:
    """Return the hits in the whole text. `found`: the results of `search` for each of `windows(text)`, in order.

    Raises RecogniserFailed if a result is missing.
    """
    requested, cut = _requested(policy), windows(text)
    if len(found) != len(cut) or any(len(each) != len(requested) for each in found):
        raise RecogniserFailed
    placing = extents(text, cut)
    joined: list[JoinedHits] = []
    for (recogniser, threshold), parts in zip(requested, zip(*found, strict=True), strict=True):
        hits = Hits(
            list(dict.fromkeys(_placed(placing, [part.passed for part in parts]))),
            list(dict.fromkeys(_placed(placing, [part.weak for part in parts]))),
        )
        joined.append(JoinedHits(recogniser, threshold, hits))
    return joined


def masks_of(text: str, joined: Sequence[JoinedHits]) -> list[Mask]:
    """Return the masks of a whole text."""
    return [
        Mask(hit.start, hit.end, recogniser.entity, "entity", hit.score, recogniser.name)
        for recogniser, _, hits in joined
        for hit in sorted({*hits.masked(text), *recogniser.copies_in(text, hits.passed)})
    ]


def _placed(placing: Sequence[Extent], parts: Sequence[Sequence[Hit]]) -> Iterator[Hit]:
    """Yield the hits that touch the cores of their windows, with offsets of the text."""
    for extent, part in zip(placing, parts, strict=True):
        for hit in part:
            if at := extent.place(hit.start, hit.end):
                yield Hit(*at, hit.score)


def find(text: str, tokens: Sequence[Token], policy: MaskPolicy, lists: AllowLists) -> list[Mask]:  # noqa: ARG001
    """Return what patterns find in the text. Raises InvalidInput, RecogniserFailed."""
    return masks_of(text, searched(text, policy))


def searched(text: str, policy: MaskPolicy) -> list[JoinedHits]:
    """Return the hits in a whole text, whose windows are read one after another.

    Raises InvalidInput, RecogniserFailed.
    """
    return join(text, policy, [search(text[window.start : window.end], policy) for window in windows(text)])


PERSON, LOCATION, ORGANIZATION, AFFILIATION, PASSWORD, SECRET, USERNAME = (
    "PERSON",
    "LOCATION",
    "ORGANIZATION",
    "AFFILIATION",
    "PASSWORD",
    "SECRET",
    "USERNAME",
)
# How much more a find needs that is an ordinary word. Capitals at the start of a sentence say nothing.
ORDINARY_MORE = {PERSON: 0.3, LOCATION: 0.3, ORGANIZATION: 0.2, PASSWORD: 0.4}
SMALL_MORE, START_MORE, ORDINARY_MOST = 0.5, 0.65, 0.95
ABBREVIATION_CHARS = 5
NAME_CHARS_MAX = 64  # of a name that is masked again; they bound the time for a word with which many names begin
NAME_LETTERS_MIN = 4  # of a word of a name that is masked where it stands alone
_NAME_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
TAGGER, NAMED_FORM = "tagger", "names.form"  # the names of recognisers in an explanation
PIN_DIGITS_MIN = 4
ADDRESS_CHARS = 64
# an empty password, and the name of the setting in the line below it
_OF_NEXT_SETTING = regex.compile(
    r"(?r)(?:pass\w{0,6}|pwd|secret|kennwort|hasło|senha)[\"']?[ ]?[:=][ ]?[\"']{0,2},?[ ]?\r?\n[ ]{0,8}[\"']?"
    r"(?![^\s:=]*(?:pass|pwd|pw|secret|token|key|pin|code))[\w.-]{1,40}[\"']?[ ]?[:=][ ]?[\"']?\Z",
    regex.IGNORECASE,
)
_KEY = regex.compile(r"\p{L}+(?:_\p{L}+)+[\"']?[ ]?[:=]")  # the name of a setting at the start of a line
_ADDRESS = regex.compile(r"[\w.+%-]++@[\w-]++(?:\.[\w-]++)++")

_SEEN = 48  # characters on each side of a find that are read
_AND_BEFORE = regex.compile(r"(?r)(?<!\w)(\p{Lu}\p{L}{2,20})[ ](?:and|&|und|et|y|e|en|i|oraz)[ ]\Z")
_SENTENCE_BEFORE = regex.compile(r"(?r)(?:\A|\n|[\p{L}\d)\"”»]{2}[.!?…][ ])[ >*•-]{0,4}\Z")
_SENTENCE_AFTER = re.compile(r" [a-z]|:")
_PARTS_MAX = 4
_UNIT = (
    r"(?i:apt|apartment|appt|suite|ste|unit|flat|psc|piso|wohnung|(?:p\.? ?o\.? ?)?box|postfach|postbus|casella postale"
    r"|bo[iî]te postale|apdo|apartado(?: de correos| postal)?|caixa postal|skr(?:ytka|\.) pocz(?:towa|t\.))"
    r"\.? ?(?:n[or°º]\.? ?)?#?\d{1,5}[A-Za-z]?"
)
# Forms of postcodes that few other numbers have: of the United Kingdom, Canada, Portugal, Poland, Brazil and the United
# States, and five or six digits. Before a town also those of the Netherlands, and of Sweden and Czechia.
_POSTCODE = r"(?:[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}|[A-Z]\d[A-Z] \d[A-Z]\d|\d{4}-\d{3}|\d{2}-\d{3}|\d{5}-\d{3,4}|\d{5,6})"
_POSTCODE_BEFORE = rf"(?:{_POSTCODE}|\d{{4}} ?[A-Z]{{2}}|\d{{3}} \d{{2}})"
_GAP = r"[\s,]{1,6}"
_END = r"(?![\w%€$£])(?!\.\d|,\d|[-/:]\w)"
_START = r"(?<![\w.,:/#$€£+-])"
# Other numbers belong to a place only if it has a number already.
_AFTER_PLACE = re.compile(rf"{_GAP}(?:{_UNIT}|{_POSTCODE}){_END}")
_AFTER_ADDRESS = re.compile(rf"{_GAP}(?:{_UNIT}|{_POSTCODE}|\d{{3,6}}){_END}")
_BEFORE_PLACE = re.compile(rf"{_START}(?:{_UNIT}|{_POSTCODE_BEFORE}){_GAP}$")
_BEFORE_ADDRESS = re.compile(rf"{_START}(?:{_UNIT}|{_POSTCODE_BEFORE}|\d{{1,6}}[A-Za-z]?){_GAP}$")


def with_numbers(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the place `start:end`, extended by the numbers of its address. Cost: constant for each place.

    A tagger reads words. Of an address in an unusual order it often finds the street and the town and leaves a number
    out, which alone may identify a household.
    """
    for part in range(_PARTS_MAX):
        address = part == 0 and any(map(str.isdecimal, text[start:end]))
        after = (_AFTER_ADDRESS if address else _AFTER_PLACE).match(text[end : end + _SEEN])
        first = max(0, start - _SEEN)
        before = (_BEFORE_ADDRESS if address else _BEFORE_PLACE).search(text[first:start])
        if not after and not before:
            break
        end += after.end() if after else 0
        start = first + before.start() if before else start
    return start, end


@dataclass(frozen=True)
class Tagged:
    """Everything of `types` that a tagger found in `text`, as (start, end, type, score) in code points."""

    text: str = field(repr=False)
    types: frozenset[str]
    found: tuple[tuple[int, int, str, float], ...]


def find_tagged(text: str, policy: MaskPolicy, tagged: Tagged | None) -> list[Mask]:
    """Return the masks. Raises RecogniserFailed for a requested entity that needs a tagger if none looked for it."""
    requested = policy.requested()
    looked_for = frozenset[str]() if tagged is None else tagged.types
    for entity in requested:
        if ENTITIES[entity].needs_tagger and entity not in looked_for:
            raise RecogniserFailed(entity=entity)
    if tagged is None or not looked_for & requested.keys():
        return []
    if tagged.text != text:
        raise RecogniserFailed
    masks = []
    assistants = Assistants(text, known=policy.assistant)
    least, language = least_scores(text, requested), cache(lambda: guess(text).language)
    for start, end, kind, score in tagged.found:
        if not (0 <= start < end <= len(text) and kind in looked_for and 0 <= score <= 1):
            raise RecogniserFailed
        wanted = kind in requested and score >= least(start, end, kind)
        if wanted and kind == ORGANIZATION and AFFILIATION in requested and public_body(text, start, end):
            continue
        if wanted and _credible(kind, text, start, end) and not assistants.have(start, end):
            place = with_numbers(text, start, end) if kind == LOCATION else (start, end)
            if kind == PERSON and " " in text[start:end] and language() in LANGUAGES:
                place = trimmed(text, start, end, language())
            masks.append(Mask(*place, kind, "entity", score, TAGGER))
    formed = _by_form(text, language, {kind: score for kind, score in requested.items() if kind in looked_for})
    masks += [mask for mask in formed if not assistants.have(mask.start, mask.end)]
    again = _named_again(text, [mask for mask in masks if mask.type == PERSON])
    return masks + [mask for mask in again if not assistants.have(mask.start, mask.end)]


def _by_form(text: str, language: Callable[[], str], requested: Mapping[str, float]) -> list[Mask]:
    """Return the names that the words beside them show. Raises RecogniserFailed."""
    failed = False
    try:
        found = [*named_forms(text, language())]
    except Exception:  # any error: its message and frames may contain the text
        failed = True
    if failed:
        raise RecogniserFailed
    return [
        Mask(start, end, kind, "entity", FORM_SCORE, NAMED_FORM)
        for start, end, kind in found
        if requested.get(kind, 1.0) <= FORM_SCORE and _credible(kind, text, start, end)
    ]


def least_scores(text: str, requested: Mapping[str, float]) -> Callable[[int, int, str], float]:
    """Return what gives the score that a find of a tagger needs: the threshold of its type, and more for an ordinary
    word of the text's language that is taken for a name alone, and for an abbreviation that is taken for an
    organisation. Most mistakes are such words. One beside a name and a word for "and" needs no more."""
    language = cache(lambda: guess(text).language)

    def more(start: int, end: int, kind: str) -> float:
        word = text[start:end]
        if kind not in ORDINARY_MORE or language() not in LANGUAGES:
            return 0.0
        words = [each for each in _NAME_WORD.findall(word) if len(each) > 1]
        if not words or not all(names_nobody(each, language()) for each in words):
            abbreviated = kind == ORGANIZATION and word.isupper() and len(word) <= ABBREVIATION_CHARS
            return ORDINARY_MORE[ORGANIZATION] * abbreviated
        if not word.isalpha():
            return ORDINARY_MORE[ORGANIZATION] * (kind == ORGANIZATION)
        other = _AND_BEFORE.search(text, max(0, start - _SEEN), start) if kind == PERSON else None
        if other and not names_nobody(other[1], language()):
            return 0.0
        begins = kind != PASSWORD and _SENTENCE_BEFORE.search(text, max(0, start - _SEEN), start) is not None
        if begins and _SENTENCE_AFTER.match(text, end) and is_no_name(word, language()):
            return START_MORE
        return SMALL_MORE if kind == PERSON and word.islower() else ORDINARY_MORE[kind]

    def least(start: int, end: int, kind: str) -> float:
        threshold = requested[kind]
        return min(threshold + more(start, end, kind), max(threshold, ORDINARY_MOST))

    return least


def _named_again(text: str, persons: Sequence[Mask]) -> list[Mask]:
    """Return the other places of names of several words, and of their words that the text does not have in small
    letters. A tagger reads windows, and may know a name in one sentence alone. The time is linear in the text."""
    scores: dict[str, float] = {}
    parts: dict[str, float] = {}
    known: set[int] = set()  # where the words of names begin
    for mask in persons:
        words = [*_NAME_WORD.finditer(text, mask.start, mask.end)]
        known.update(word.start() for word in words)
        if len(words) > 1 and mask.end - mask.start <= NAME_CHARS_MAX:
            scores[text[mask.start : mask.end]] = mask.score
            alone = [word.group() for word in words if len(word.group()) >= NAME_LETTERS_MIN]
            parts |= {word: mask.score for word in alone if word[0].isupper()}
    small = {word.lower() for word in parts}
    ordinary = {word.group() for word in _NAME_WORD.finditer(text) if word.group() in small} if small else set()
    scores = {word: score for word, score in parts.items() if word.lower() not in ordinary} | scores
    return [
        Mask(start, end, PERSON, "entity", scores[text[start:end]], TAGGER)
        for start, end in occurrences(text, scores)
        if start not in known and _credible(PERSON, text, start, end)
    ]


def _credible(kind: str, text: str, start: int, end: int) -> bool:
    """Whether a find may be what its type says: no shared account such as `root`, no placeholder such as `<your-key>`,
    which patterns leave alone as well, no number that is too short for a PIN, or of a machine or a code, no public
    value (`public_values`) or name (`public_names`), and no later part of an address."""
    value = text[start:end]
    if kind == USERNAME:
        return identifies(value) and not (text[start - 1 : start] in ("", "\n") and _KEY.match(text, start, end + 3))
    if kind not in (PASSWORD, SECRET):
        return not public_name(kind, text, start, end)
    if _OF_NEXT_SETTING.search(text, max(0, start - ADDRESS_CHARS), start) or (
        value.isdecimal() and (names_machine(text, start, value) or starts_code(text, start))
    ):
        return False
    if placeholder(value) or (value.isdecimal() and len(value) < PIN_DIGITS_MIN) or read_by_all(text, start, end):
        return False
    near = _ADDRESS.finditer(text, max(0, start - ADDRESS_CHARS), end + ADDRESS_CHARS)
    return not any(match.start() < start and end <= match.end() for match in near)


def join_tagged(text: str, parts: Sequence[Tagged]) -> Tagged:
    """Return the findings in the whole text. `parts`: those in each of `windows(text)`, in order.

    Raises RecogniserFailed if the parts are not those of this text, or a span is outside its window.
    """
    cut = windows(text)
    if len(parts) != len(cut):
        raise RecogniserFailed
    for window, part in zip(cut, parts, strict=True):
        inside = all(0 <= start < end <= len(part.text) for start, end, _, _ in part.found)
        if not inside or part.text != text[window.start : window.end]:
            raise RecogniserFailed
    found = {
        (*at, kind, score)
        for extent, part in zip(extents(text, cut), parts, strict=True)
        for start, end, kind, score in part.found
        if (at := extent.place(start, end))
    }
    return Tagged(text, frozenset.intersection(*(part.types for part in parts)), tuple(sorted(found)))

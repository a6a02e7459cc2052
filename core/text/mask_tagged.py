"""Technique `entity`, second half: names and credentials that a tagger has found. No guarantee.

The model runs in another process; its results arrive as `Tagged`. The technique fails closed: a requested entity that
only a tagger finds and that no tagger looked for, results for another text, and an invalid result are errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import regex  # type: ignore[import-untyped]

from core.errors import RecogniserFailed
from core.text.policy import ENTITIES, Mask, MaskPolicy
from core.text.recognisers.account_names import identifies
from core.text.recognisers.secret_values import placeholder
from core.text.windows import extents, windows

LOCATION, PASSWORD, SECRET, USERNAME = "LOCATION", "PASSWORD", "SECRET", "USERNAME"
TAGGER = "tagger"  # the name of the recogniser in an explanation
PIN_DIGITS_MIN = 4
ADDRESS_CHARS = 64
_ADDRESS = regex.compile(r"[\w.+%-]++@[\w-]++(?:\.[\w-]++)++")

_SEEN = 48  # characters on each side of a place that are read
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


def find(text: str, policy: MaskPolicy, tagged: Tagged | None) -> list[Mask]:
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
    for start, end, kind, score in tagged.found:
        if not (0 <= start < end <= len(text) and kind in looked_for and 0 <= score <= 1):
            raise RecogniserFailed
        if kind in requested and score >= requested[kind] and _credible(kind, text, start, end):
            place = with_numbers(text, start, end) if kind == LOCATION else (start, end)
            masks.append(Mask(*place, kind, "entity", score, TAGGER))
    return masks


def _credible(kind: str, text: str, start: int, end: int) -> bool:
    """Whether a find may be what its type says: no shared account such as `root`, no placeholder such as `<your-key>`,
    which patterns leave alone as well, no number that is too short for a PIN, and no later part of an address."""
    value = text[start:end]
    if kind == USERNAME:
        return identifies(value)
    if kind not in (PASSWORD, SECRET):
        return True
    if placeholder(value) or (value.isdecimal() and len(value) < PIN_DIGITS_MIN):
        return False
    near = _ADDRESS.finditer(text, max(0, start - ADDRESS_CHARS), end + ADDRESS_CHARS)
    return not any(match.start() < start and end <= match.end() for match in near)


def join(text: str, parts: Sequence[Tagged]) -> Tagged:
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

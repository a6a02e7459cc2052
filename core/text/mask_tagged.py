"""Technique `entity`, second half: names and credentials that a tagger has found. No guarantee.

The model runs in another process; its results arrive as `Tagged`. The technique fails closed: a requested entity that
only a tagger finds and that no tagger looked for, results for another text, and an invalid result are errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import regex  # type: ignore[import-untyped]

from core.errors import RecogniserFailed
from core.text.address_parts import with_numbers
from core.text.policy import ENTITIES, Mask, MaskPolicy
from core.text.recognisers.account_names import identifies
from core.text.recognisers.secret_values import placeholder
from core.text.windows import extents, windows

LOCATION, PASSWORD, SECRET, USERNAME = "LOCATION", "PASSWORD", "SECRET", "USERNAME"
TAGGER = "tagger"  # the name of the recogniser in an explanation
PIN_DIGITS_MIN = 4
ADDRESS_CHARS = 64
_ADDRESS = regex.compile(r"[\w.+%-]++@[\w-]++(?:\.[\w-]++)++")


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

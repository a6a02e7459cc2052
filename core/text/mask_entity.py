"""Technique `entity`: typed personal data by patterns, checksums and context words. No guarantee.

The technique fails closed: a requested entity without a recogniser, a recogniser that raises and a pattern that times
out are errors. Nothing is skipped with a log line.

Recognisers run in windows of a long text (`core.text.windows`). `find` runs them in one window after another; `search`
and `join` are for windows that run as separate tasks.
"""

from __future__ import annotations

import importlib
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from core.errors import InvalidInput, RecogniserFailed
from core.text.lists import AllowLists
from core.text.policy import ENTITIES, Mask, MaskPolicy
from core.text.recogniser import Hit, Hits, Recogniser
from core.text.tokens import Token
from core.text.windows import Extent, extents, windows

_FULL_WIDTH = range(0xFF01, 0xFF5F)
_FULL_WIDTH_SHIFT = 0xFF01 - 0x21
_MATHEMATICAL = range(0x1D400, 0x1D800)


@cache
def _table() -> dict[int, str]:
    forms = {code: chr(code - _FULL_WIDTH_SHIFT) for code in _FULL_WIDTH}
    for code in _MATHEMATICAL:
        plain = unicodedata.normalize("NFKC", chr(code))
        if plain.isascii() and len(plain) == 1:
            forms[code] = plain
    for code in range(0x80, sys.maxunicode + 1):
        if (digit := unicodedata.decimal(chr(code), -1)) >= 0:
            forms[code] = str(digit)
    return forms


def plain_characters(text: str) -> str:
    """Return `text` with ASCII characters for their other forms: full-width forms, mathematical letters, and decimal
    digits of every script. One character becomes one character, so places in the result are those of the text."""
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


def search(text: str, policy: MaskPolicy) -> tuple[Hits, ...]:
    """Return what each recogniser that the policy needs finds in one window, read in plain characters
    (`plain_characters`). Names: see `core.text.mask_tagged`.

    Raises InvalidInput for an entity without a recogniser (before any runs), RecogniserFailed.
    """
    requested, text = _requested(policy), plain_characters(text)
    digits = sum(map(str.isdecimal, text))
    return tuple(_hits(recogniser, text, threshold, digits) for recogniser, threshold in requested)


class Joined(NamedTuple):
    """The hits of one recogniser in a whole text."""

    recogniser: Recogniser
    threshold: float
    hits: Hits


def join(text: str, policy: MaskPolicy, found: Sequence[tuple[Hits, ...]]) -> list[Joined]:
    """Return the hits in the whole text. `found`: the results of `search` for each of `windows(text)`, in order.

    Raises RecogniserFailed if a result is missing.
    """
    requested, cut = _requested(policy), windows(text)
    if len(found) != len(cut) or any(len(each) != len(requested) for each in found):
        raise RecogniserFailed
    placing = extents(text, cut)
    joined: list[Joined] = []
    for (recogniser, threshold), parts in zip(requested, zip(*found, strict=True), strict=True):
        hits = Hits(
            list(dict.fromkeys(_placed(placing, [part.passed for part in parts]))),
            list(dict.fromkeys(_placed(placing, [part.weak for part in parts]))),
        )
        joined.append(Joined(recogniser, threshold, hits))
    return joined


def masks_of(text: str, joined: Sequence[Joined]) -> list[Mask]:
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
    """Return what patterns find in the text. Raises as `search`."""
    return masks_of(text, searched(text, policy))


def searched(text: str, policy: MaskPolicy) -> list[Joined]:
    """Return the hits in a whole text, whose windows are read one after another. Raises as `search`."""
    return join(text, policy, [search(text[window.start : window.end], policy) for window in windows(text)])

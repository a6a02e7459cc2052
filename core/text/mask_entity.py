"""Technique `entity`: typed personal data by patterns, checksums and context words. No guarantee.

The technique fails closed: a requested entity without a recogniser, a recogniser that raises and a pattern that times
out are errors. Nothing is skipped with a log line.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache

from core.errors import InvalidInput, RecogniserFailed
from core.text.lists import AllowLists
from core.text.policy import ENTITIES, Mask, MaskPolicy
from core.text.recogniser import Recogniser
from core.text.tokens import Token


@cache
def recognisers() -> dict[str, tuple[Recogniser, ...]]:
    """Return the recognisers of each entity, built once for each process. None of them keeps any text."""
    table: dict[str, tuple[Recogniser, ...]] = {}
    for module in dict.fromkeys(entity.module for entity in ENTITIES.values() if entity.module):
        for recogniser in importlib.import_module(module).recognisers():
            table[recogniser.entity] = (*table.get(recogniser.entity, ()), recogniser)
    return table


def _run(recogniser: Recogniser, text: str, threshold: float, digits: int) -> list[Mask]:
    failed = False
    try:
        hits = recogniser.hits(text, threshold=threshold, digits=digits)
    except Exception:  # any error: its message and frames may contain the text
        failed = True
    if failed:
        raise RecogniserFailed(entity=recogniser.entity)
    return [Mask(hit.start, hit.end, recogniser.entity, "entity", hit.score) for hit in hits]


def find(text: str, tokens: Sequence[Token], policy: MaskPolicy, lists: AllowLists) -> list[Mask]:  # noqa: ARG001
    """Return what patterns find. `core.text.mask_tagged` handles names.

    Raises InvalidInput for an entity without a recogniser (before any runs), RecogniserFailed.
    """
    requested = {name: score for name, score in policy.requested().items() if not ENTITIES[name].tagged}
    table = recognisers()
    if not requested.keys() <= table.keys():
        supported = ", ".join(name for name in ENTITIES if name in table)
        raise InvalidInput(f"An entity has no recogniser. Supported: {supported}.", field="entities")
    digits = sum(map(str.isdecimal, text))
    found: list[Mask] = []
    for entity, threshold in requested.items():
        for recogniser in table[entity]:
            found.extend(_run(recogniser, text, threshold, digits))
    return found

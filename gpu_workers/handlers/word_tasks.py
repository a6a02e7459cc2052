"""The pieces of a document with many words or values to draw, by `metric_dp` or `surrogate`.

The document's first step masks it and lists what to draw, in parts. Each part is drawn by a task of its own. The last
step masks the document again, from the same finds, and puts the results in their places; it draws nothing. What a
worker does for each: `gpu_workers.handlers.word_parts`, which also has the argument that the distribution of the result
does not change. If a part fails, the document fails.

Parts and results are bytes, so that the front end passes them on without reading them. This module imports no
mechanism and no faker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core.text.masks import WindowFinds
from core.text.policy import MaskPolicy


@dataclass(frozen=True)
class WordsToDraw:
    """What to draw for a document, in parts, and what recognisers found in the document's windows. `terms`: of the
    document, for `surrogate` (`core.text.surrogates.draw`)."""

    parts: tuple[bytes, ...] = field(repr=False)
    finds: tuple[WindowFinds, ...] = field(repr=False)
    terms: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class WordTask:
    """A part of a document with `metric_dp`. Its result is the drawn words. Units: epsilon in nano, per unit of
    distance."""

    part: bytes = field(repr=False)
    mechanism: str
    epsilon_nano: int


@dataclass(frozen=True)
class SurrogateTask:
    """A part of a document with `surrogate`. Its result is the drawn values."""

    part: bytes = field(repr=False)
    terms: bytes = field(repr=False)
    policy: MaskPolicy

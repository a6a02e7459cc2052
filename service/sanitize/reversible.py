"""Masking that can be undone: the finds of texts, and the task that gives all of them one mapping of surrogates.

No guarantee, as of all masking.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from core.text.languages import LANGUAGES
from core.text.policy import SURROGATE, Sanitised
from core.text.reversible.mapping import Content, Region
from gpu_workers.engine.protocol import Task
from gpu_workers.handlers.conversation_tasks import MaskTask

# how a fill of `/sanitize` is written so that it can be restored
FILLS = {SURROGATE: SURROGATE, "class_marker": "numbered", "marker": "numbered"}
_ENTRY_BYTES = 400
_REGION_BYTES = 150


@dataclass(frozen=True)
class TextFinds:
    """What was found in one text. `refused`: its language is one that the policy refuses."""

    regions: tuple[Region, ...] = ()
    language: str | None = None
    refused: bool = False

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + _REGION_BYTES * len(self.regions)


NOTHING = TextFinds()


def read_of(result: Sanitised) -> TextFinds:
    """The finds of a dry run with origins."""
    if result.refused:
        return TextFinds(refused=True)
    if result.origins is None:
        raise TypeError("the finds have no places")
    pairs = zip(result.origins, result.spans, strict=True)
    regions = tuple(Region(origin.start, origin.end, span.type) for origin, span in pairs)
    return TextFinds(regions, result.language)


def main_language(texts: Sequence[str], reads: Sequence[TextFinds]) -> str | None:
    """The known language in which most of some documents is written; None without one."""
    sizes: Counter[str] = Counter()
    for text, read in zip(texts, reads, strict=True):
        if read.language is not None and read.language in LANGUAGES:
            sizes[read.language] += len(text)
    return max(sizes, key=lambda language: sizes[language], default=None)


def first_language(texts: Sequence[str], reads: Sequence[TextFinds], first: str) -> str | None:
    """The known language of `first`, the first message of the user; else that of the first text with a find, or of the
    nearest one before it. No text that comes later changes it."""
    language = None
    for text, read in zip(texts, reads, strict=True):
        if text == first and read.language in LANGUAGES:
            return read.language
    for read in reads:
        language = read.language if read.language in LANGUAGES else language
        if read.regions:
            break
    return language


def mask_task(
    texts: Sequence[str],
    reads: Sequence[TextFinds],
    *,
    key: bytes,
    language: str | None,
    fill: str,
    earlier: Content | None = None,
) -> Task:
    """The task whose result is the texts with surrogates. `language`: of the surrogates; None for English. `fill`: a
    key of `FILLS`. `earlier`: what earlier turns were masked with."""
    payload = MaskTask(
        texts,
        [read.regions for read in reads],
        key=key,
        language=language,
        fill=FILLS[fill],
        earlier=earlier,
    )
    return Task(payload, payload.weight)

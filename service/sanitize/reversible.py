"""Masking that can be undone: the finds of texts, and one mapping of surrogates for all texts of a call.

No guarantee, as of all masking. What restores the texts, `core.text.reversible.mapping.Mapping`, is imported when it is
first needed: with it come lists of names and words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from core.errors import TaskFailed
from core.text.languages import LANGUAGES
from core.text.policy import SURROGATE, Sanitised

if TYPE_CHECKING:
    from core.text.reversible.conversation import MaskedConversation

# how a fill of `/sanitize` is written so that it can be restored
FILLS = {SURROGATE: SURROGATE, "class_marker": "numbered", "marker": "numbered"}
WORK = 8  # the time to mask and check a character, against one of plain JSON
_CONVERSATION = "core.text.reversible.conversation"
_ENTRY_BYTES = 400
_REGION_BYTES = 150

Region = tuple[int, int, str]  # code points [start, end) of a text, and the type of the find


@dataclass(frozen=True)
class Read:
    """What was found in one text. `refused`: its language is one that the policy refuses."""

    regions: tuple[Region, ...] = ()
    language: str | None = None
    refused: bool = False

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + _REGION_BYTES * len(self.regions)


NOTHING = Read()


def read_of(result: Sanitised) -> Read:
    """The finds of a dry run with origins."""
    if result.refused:
        return Read(refused=True)
    if result.origins is None:
        raise TypeError("the finds have no places")
    pairs = zip(result.origins, result.spans, strict=True)
    regions = tuple((origin.start, origin.end, span.type) for origin, span in pairs)
    return Read(regions, result.language)


def main_language(texts: Sequence[str], reads: Sequence[Read], known: Collection[str]) -> str | None:
    """The known language in which most of a conversation is written; None without one."""
    sizes: Counter[str] = Counter()
    for text, read in zip(texts, reads, strict=True):
        if read.language is not None and read.language in known:
            sizes[read.language] += len(text)
    return max(sizes, key=lambda language: sizes[language], default=None)


def load() -> None:
    """Import what masking needs, which takes a second the first time."""
    import_module(_CONVERSATION)


def masked(
    texts: Sequence[str], reads: Sequence[Read], *, key: bytes, language: str | None, fill: str
) -> MaskedConversation:
    """The texts with surrogates. `language`: of the surrogates; None for that of most of the texts. `fill`: a key of
    `FILLS`. Raises TaskFailed without surrogates that could be restored."""
    try:
        result: MaskedConversation = import_module(_CONVERSATION).mask_conversation(
            texts,
            [read.regions for read in reads],
            key=key,
            language=language or main_language(texts, reads, LANGUAGES),
            fill=FILLS[fill],
        )
    except TaskFailed as error:
        error.charged = False
        raise
    return result

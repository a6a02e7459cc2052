"""Tasks of the sanitise role that mask a whole conversation, or restore texts, with one mapping of surrogates.

They run in a worker because surrogates need lists of names and words, and because a large conversation takes seconds.
The front end imports no such list: it restores answers with the mapping that the worker returns. What recognisers found
comes from tasks that ran before (`gpu_workers.handlers.sanitize_tasks`). Nothing is drawn at random: surrogates are a
function of the key, so a task may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.text.reversible.mapping import Content
from core.text.reversible.masked import MaskedConversation, Region

_CHARS_PER_TOKEN = 16  # masking and checking a character takes about a quarter of the time of a tagger


@dataclass(frozen=True)
class MaskTask:
    """`texts` with the regions of each. The result is a `MaskedConversation`; see
    `core.text.reversible.conversation.mask_conversation` for the arguments and the guarantee."""

    texts: Sequence[str] = field(repr=False)
    regions: Sequence[Sequence[Region]] = field(repr=False)
    key: bytes = field(repr=False)
    language: str | None
    fill: str

    @property
    def weight(self) -> int:
        return sum(map(len, self.texts)) // _CHARS_PER_TOKEN + 1


@dataclass(frozen=True)
class RestoreTask:
    """`texts` that were made from masked ones. The result is a list of the texts with the originals of `content`."""

    texts: Sequence[str] = field(repr=False)
    content: Content = field(repr=False)

    @property
    def weight(self) -> int:
        return sum(map(len, self.texts)) // _CHARS_PER_TOKEN + len(self.content.pairs) + 1


def run(task: MaskTask | RestoreTask) -> MaskedConversation | list[str]:
    """Run a task, in a worker. Raises TaskFailed as `mask_conversation`."""
    if isinstance(task, RestoreTask):
        from core.text.reversible.forms import mapping_of

        mapping = mapping_of(task.content)
        return [mapping.restore(text) for text in task.texts]
    from core.text.reversible.conversation import mask_conversation

    return mask_conversation(task.texts, task.regions, key=task.key, language=task.language, fill=task.fill)

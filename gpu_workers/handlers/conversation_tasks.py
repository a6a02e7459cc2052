"""Tasks of the sanitise role that mask a whole conversation, or restore texts, with one mapping of surrogates.

They run in a worker because surrogates need lists of names and words, and because a large conversation takes seconds.
The front end imports no such list: it restores answers with the mapping that the worker returns. What recognisers found
comes from tasks that ran before (`gpu_workers.handlers.sanitize_tasks`). Nothing is drawn at random: surrogates are a
function of the key, so a task may be repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from core.text.reversible.mapping import Content, Mapping, MaskedConversation, Region

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
    earlier: Content | None = field(default=None, repr=False)
    interruptible = True

    @property
    def weight(self) -> int:
        known = 0 if self.earlier is None else len(self.earlier.pairs)
        return sum(map(len, self.texts)) // _CHARS_PER_TOKEN + known + 1


@dataclass(frozen=True)
class RestoreTask:
    """`texts` that were made from masked ones. The result is a list of the texts with the originals of `content`."""

    texts: Sequence[str] = field(repr=False)
    content: Content = field(repr=False)
    interruptible = True

    @property
    def weight(self) -> int:
        return sum(map(len, self.texts)) // _CHARS_PER_TOKEN + len(self.content.pairs) + 1


class Beginning(NamedTuple):
    """A restored text, whose last `open_chars` characters depend on what follows it."""

    text: str
    open_chars: int

    def __repr__(self) -> str:
        return f"Beginning({len(self.text)} characters)"


@dataclass(frozen=True)
class BeginningsTask(RestoreTask):
    """`texts` of which each may be the beginning of a longer one. The result is a list of `Beginning`. Without its open
    characters, the result for a text is the beginning of the result for every longer text. A text that begins with `{`
    is restored as JSON."""


def run(task: MaskTask | RestoreTask) -> MaskedConversation | list[str] | list[Beginning]:
    """Run a task, in a worker. Raises InvalidInput and TaskFailed as `mask_conversation`."""
    if isinstance(task, RestoreTask):
        from core.text.reversible.forms import mapping_of

        mapping = mapping_of(task.content)
        if isinstance(task, BeginningsTask):
            return [_beginning(mapping, text) for text in task.texts]
        return [mapping.restore(text) for text in task.texts]
    from core.text.reversible.conversation import mask_conversation

    masked = mask_conversation(
        task.texts, task.regions, key=task.key, language=task.language, fill=task.fill, earlier=task.earlier
    )
    return masked._replace(mapping=masked.mapping.packed())


def _beginning(mapping: Mapping, text: str) -> Beginning:
    restorer = mapping.restorer("json") if text.lstrip().startswith("{") else mapping.restorer()
    certain = restorer.feed(text)
    rest = restorer.end()
    return Beginning(certain + rest, len(rest))

"""Recognisers of tenants and of the operator in a worker: from their files, and drafts that come with a task."""

from dataclasses import dataclass, field

from core.errors import GatewayError, RecogniserFailed, TaskFailed
from core.files.disk import FileVersion
from core.guarded import guarded
from core.text.own_recognisers.definition import RecogniserFile, read_definition
from core.text.own_recognisers.recogniser import DraftFinds, OwnFinds, OwnRecogniser, ready, search, try_out
from core.text.policy import MaskPolicy
from gpu_workers.engine.handler import pause
from gpu_workers.handlers.options import FileCache

_CHARS_PER_TOKEN = 4
_INSTRUCTIONS_PER_TOKEN = 20  # to compile so many takes as long as to recognise a token


class OwnFinder:
    """Runs the recognisers that policies name. It keeps at most `loaded_max` of them, in a `FileCache`."""

    def __init__(self, *, loaded_max: int) -> None:
        self._loaded = FileCache(_load, loaded_max=loaded_max)

    def search(self, text: str, policy: MaskPolicy) -> OwnFinds:
        """Return what the policy's recognisers find in one window. Between two patterns, the worker may run batches of
        others. Raises RecogniserBroken for a file that cannot be used, InvalidInput for too many finds, and
        RecogniserFailed for any other error."""
        found = guarded(self._search, text, policy)
        if isinstance(found, GatewayError):
            raise RecogniserFailed if isinstance(found, TaskFailed) else found
        return found

    def _search(self, text: str, policy: MaskPolicy) -> OwnFinds:
        return search(text, [self._loaded.get(each.file) for each in policy.own], policy, pause)


def _load(file: FileVersion) -> OwnRecogniser:
    if not isinstance(file, RecogniserFile):
        raise TypeError
    return ready(read_definition(file))


@dataclass(frozen=True)
class DraftTask:
    """A text, and a recogniser that is not stored: `definition`, as `Definition.packed`. Its patterns compile to
    `instructions`. Its result is `DraftFinds`."""

    text: str = field(repr=False)
    definition: bytes = field(repr=False)
    threshold: float
    instructions: int
    interruptible = True

    @property
    def weight(self) -> int:
        """The estimated work, in tokens."""
        chars = len(self.text) + len(self.definition)
        return chars // _CHARS_PER_TOKEN + self.instructions // _INSTRUCTIONS_PER_TOKEN + 1


def tried(task: DraftTask) -> DraftFinds:
    """Return what a draft finds. Raises RecogniserBroken, InvalidInput."""
    return try_out(task.text, ready(task.definition), threshold=task.threshold)

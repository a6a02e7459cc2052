"""The state that one attempt at a job stores for the next attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from core.files.disk import sync_folder
from core.files.encrypted_file import decrypt, encrypt
from core.job_errors import JobFilesLost
from gpu_workers.jobs.messages import JobOrder

Part = TypeVar("Part")


@dataclass(frozen=True)
class EncryptedCheckpoint:
    """One state, of a training or a release, in the job's encrypted folder."""

    order: JobOrder
    label: str

    def read(self) -> bytes | None:
        """Raises JobFilesLost if the file was modified."""
        path = self.order.folder / self.label
        return decrypt(path, self.order.key, self.label) if path.exists() else None

    def write(self, state: bytes) -> None:
        """Write the state. On return, the state and its directory entry are on disk."""
        encrypt(self.order.folder / self.label, self.order.key, self.label, state)
        sync_folder(self.order.folder)


def kept_part(
    checkpoint: EncryptedCheckpoint,
    make: Callable[[], Part],
    *,
    packed: Callable[[Part], bytes],
    unpacked: Callable[[bytes], Part],
) -> Part:
    """A part of the work: that of an earlier attempt, or else a new one, which is kept. Raises JobFilesLost."""
    state = checkpoint.read()
    if state is None:
        part = make()
        checkpoint.write(packed(part))
        return part
    try:
        return unpacked(state)
    except (ValueError, KeyError, TypeError):
        raise JobFilesLost from None

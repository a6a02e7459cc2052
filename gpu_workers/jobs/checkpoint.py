"""The state that one attempt at a job stores for the next attempt."""

from __future__ import annotations

from dataclasses import dataclass

from core.files.encrypted_file import decrypt, encrypt
from core.files.secret_file import sync_folder
from gpu_workers.jobs.messages import JobOrder


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

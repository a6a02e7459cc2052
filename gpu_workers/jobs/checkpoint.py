"""What an attempt at a job leaves to the next one."""

from __future__ import annotations

from dataclasses import dataclass

from core.files.encrypted_file import decrypt, encrypt
from core.files.secret_file import sync_folder
from gpu_workers.jobs.messages import JobOrder


@dataclass(frozen=True)
class EncryptedCheckpoint:
    """One state, a training's or a release, in the job's encrypted folder."""

    order: JobOrder
    label: str

    def read(self) -> bytes | None:
        """Raises JobFilesLost where the file was tampered with."""
        path = self.order.folder / self.label
        return decrypt(path, self.order.key, self.label) if path.exists() else None

    def write(self, state: bytes) -> None:
        """On return the state and its name are on the disk."""
        encrypt(self.order.folder / self.label, self.order.key, self.label, state)
        sync_folder(self.order.folder)

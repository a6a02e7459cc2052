"""The gateway's secrets outside Redis: the master key, the admin key, and how a secret file is written."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from core.ledger.keys import MasterKey
from service.settings import Settings


def write_secret(path: Path, secret: str) -> None:
    """Write a secret for its owner's eyes only (mode 0600)."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        os.fchmod(fd, 0o600)
        file.write(secret + "\n")


def load_master_key(settings: Settings) -> MasterKey:
    """The master key of the settings, else of the data directory."""
    if settings.master_key is not None:
        return MasterKey.from_hex(settings.master_key.get_secret_value())
    return MasterKey.load_or_create(settings.data_dir)


def load_admin_key(settings: Settings) -> str:
    """The admin key of the settings, else of `admin.key` in the data directory, made on first use."""
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    path = settings.data_dir / "admin.key"
    if not path.exists():
        write_secret(path, f"pga_{secrets.token_hex(16)}")
    return path.read_text().strip()

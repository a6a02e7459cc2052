"""The gateway's secrets outside Redis: the master key, the admin key, and how a secret file is written."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from core.ledger.keys import MasterKey
from service.settings import Settings


def write_secret(path: Path, secret: str) -> None:
    """Write a secret for its owner's eyes only (mode 0600)."""
    _write(path, secret, os.O_TRUNC)


def _write(path: Path, secret: str, flag: int) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flag, 0o600)
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
    try:
        _write(path, f"pga_{secrets.token_hex(16)}", os.O_EXCL)
    except FileExistsError:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ValueError("admin.key must be readable by its owner only") from None
    return path.read_text().strip()

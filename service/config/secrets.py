"""The secrets that are kept outside Redis: the master key and the admin key."""

from __future__ import annotations

from contextlib import suppress

from core import credentials
from core.files.disk import read_secret, write_secret
from core.master_key import MasterKey
from service.config.settings import Settings


def load_master_key(settings: Settings) -> MasterKey:
    """The master key from the settings, or from the data directory. Raises ValueError, OSError."""
    if settings.master_key is not None:
        return MasterKey.from_hex(settings.master_key.get_secret_value())
    return MasterKey.load_or_create(settings.data_dir)


def load_admin_keys(settings: Settings) -> tuple[str, ...]:
    """The admin key, and the previous one where the settings still accept it. Raises as `load_admin_key`."""
    previous = settings.admin_key_previous
    return (load_admin_key(settings), *([] if previous is None else [previous.get_secret_value()]))


def load_admin_key(settings: Settings) -> str:
    """The admin key from the settings, or from `admin.key` in the data directory, which is created on first use.

    Raises: ValueError for a file that other users can read or that holds no complete key; the file is not replaced.
        OSError.
    """
    if settings.admin_key is not None:
        return credentials.admin_key(settings.admin_key.get_secret_value())
    path = settings.data_dir / "admin.key"
    if not path.exists():
        with suppress(FileExistsError):  # another process created it first
            write_secret(path, f"{credentials.new_admin_key()}\n".encode())
    return read_secret(
        path,
        lambda content: credentials.admin_key(content.decode(errors="replace")),
        advice="delete the file, and the next start makes a new key",
    )

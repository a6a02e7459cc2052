"""A secret of the operator, from an environment variable or a file. It is part of no `repr`, message or dump."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import SecretStr

from core import credentials


def key_of(*, env: str | None, file: str | None) -> SecretStr | None:
    """The secret, read once; None if neither is named. Raises ValueError for both, and for one that cannot be read."""
    if env is not None and file is not None:
        raise ValueError("either key_env or key_file")
    if env is not None:
        if env not in os.environ:
            raise ValueError("key_env names a variable that is not set")
        return SecretStr(credentials.token(os.environ[env]))
    if file is None:
        return None
    try:
        text = Path(file).read_text(encoding="ascii")
    except (OSError, ValueError):
        raise ValueError("key_file cannot be read") from None
    return SecretStr(credentials.token(text))

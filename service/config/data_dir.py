"""Folders of the data directory that belong to tenants, and the names of files in them."""

from __future__ import annotations

import re
from pathlib import Path

from core.errors import InvalidInput
from core.redis.names import SHARED_OWNER, check_tenant

PROCESSES = "processes"  # the folder of what each further gateway of `serve --processes` has for itself
MEASURED = "cache/measured"  # what workers have measured on this machine
NAME = r"[a-z0-9][a-z0-9-]{0,63}"


def check_name(name: str) -> str:
    """`name` itself. Raises InvalidInput."""
    if not re.fullmatch(NAME, name):
        raise InvalidInput("a name is 1 to 64 of a-z, 0-9 and -", field="name")
    return name


def owner_folder(root: Path, owner: str) -> Path:
    """The folder of a tenant, or of the operator, under `root`."""
    return root / "shared" if owner == SHARED_OWNER else root / "tenants" / check_tenant(owner)

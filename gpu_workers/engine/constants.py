"""Content that many batches use and that never changes: files of tenants and public matrices, by their SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import PurePath
from typing import NamedTuple


class Constant(NamedTuple):
    """`group`: what it counts for (`group_of`). `digest`: the SHA-256 of its bytes, in hex. `size`: their number."""

    group: str
    digest: str
    size: int

    @property
    def key(self) -> tuple[str, str]:
        """What it is the content of: one digest in two groups is two objects, so a tenant can neither evict nor use
        what another one brought."""
        return self.group, self.digest


def group_of(*names: str) -> str:
    """A group by its names, which it does not show: it is the name of a folder on a worker's disk."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]


def group_of_file(path: str) -> str:
    """The group of a file: that of its folder, whatever data directory this is in.

    `tenants/<tenant>` for everything that a tenant has stored, and folders of their own for what is shared.
    """
    return group_of(*PurePath(path).parts[-3:-1])


def group_of_tenant(tenant: str) -> str:
    """The group of the files of a tenant."""
    return group_of("tenants", tenant)

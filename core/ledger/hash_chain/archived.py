"""Ranges of entries that were moved to the archive. Every seal that records one contains its digest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Self

from core.errors import LedgerNotTrusted
from core.ledger import names

# The stream of the seals themselves. No tenant can have this name.
CHAIN = "@chain"
_ROW = re.compile(rb"(\d+):(\d+):([0-9a-f]{64}):(\d+):(\d+)")


@dataclass(frozen=True)
class ArchivedRange:
    """Entries `first` to `last` of a tenant's journal, or seals of CHAIN, in one object of the archive.

    `digest` is their `JournalDigest`. `from_ms` and `to_ms` are the times of the first and the last entry; 0 for seals.
    """

    stream: str
    first: int
    last: int
    digest: str
    from_ms: int = 0
    to_ms: int = 0

    @classmethod
    def of_seal(cls, row: Sequence[Any]) -> Self:
        """Parse a row in the body of a seal."""
        return cls(*row)

    @classmethod
    def of_index(cls, stream: str, row: bytes) -> Self:
        """Parse a row of the index in Redis, which is not authenticated. Raises LedgerNotTrusted."""
        found = _ROW.fullmatch(row)
        if found is None:
            raise LedgerNotTrusted("The index of the archive cannot be read.")
        first, last, digest, from_ms, to_ms = found.groups()
        return cls(stream, int(first), int(last), digest.decode(), int(from_ms), int(to_ms))

    @property
    def row(self) -> tuple[Any, ...]:
        """The row in the body of a seal."""
        return astuple(self)

    @property
    def index_row(self) -> str:
        return f"{self.first}:{self.last}:{self.digest}:{self.from_ms}:{self.to_ms}"

    def blob_key(self, ledger: str) -> str:
        """The key of the object. It names the content, so two archivers never write different objects to one key."""
        return f"{blob_folder(ledger, self.stream)}/{self.first:016d}-{self.last:016d}-{self.digest}"


def blob_folder(ledger: str, stream: str) -> str:
    """The folder of the objects of one stream."""
    ledger = names.check_hex(ledger, length=32)
    if stream == CHAIN:
        return f"archive/{ledger}/chain"
    return f"archive/{ledger}/journal/{names.check_tenant(stream)}"

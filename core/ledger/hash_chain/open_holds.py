"""The amounts that open holds debit from subjects' accounts.

The journal has only a digest of them until a hold is spent (`reserve.lua`), so an audit reads them from the records of
the holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgpack

from core.ledger import names, wire
from core.ledger.client import LedgerClient
from core.ledger.counters import Vector, plus
from core.ledger.hash_chain.replay import Key, key_of
from core.ledger.pages import raw_entries

_BATCH = 32  # a record may have thousands of rows
_Rows = tuple[tuple[Key, Vector], ...]


class OpenHolds:
    """Reads the records of one tenant's holds. A hold may end while the audit runs."""

    def __init__(self, client: LedgerClient, tenant: str) -> None:
        self._client = client
        self._tenant = tenant
        self._rows: dict[str, _Rows] = {}
        self._ended: set[str] = set()
        self._forged: set[str] = set()

    async def held_by_subjects(self, digests: Mapping[str, str]) -> dict[Key, Vector] | None:
        """Return the sums over the releases in `digests`. Returns None if one of them is no longer open."""
        self._rows = {release: rows for release, rows in self._rows.items() if release in digests}
        unread = [release for release in digests if release not in self._rows]
        self._ended, self._forged = set(), set()
        for start in range(0, len(unread), _BATCH):
            batch = unread[start : start + _BATCH]
            records = await self._client.call_many(
                [("GET", names.release_key(self._tenant, release)) for release in batch]
            )
            for release, record in zip(batch, records, strict=True):
                self._read(release, record, digests[release])
        if self._ended or self._forged:
            return None
        sums: dict[Key, Vector] = {}
        for rows in self._rows.values():
            for key, vector in rows:
                sums[key] = plus(sums[key], vector) if key in sums else vector
        return sums

    async def faults(self, *, after: int) -> list[str]:
        """Return the faults of the last read: each release must be open, or end in an entry after `after`."""
        seq = int(await self._client.call("HGET", names.tenant_key(self._tenant), "seq") or 0)
        missing = set(self._ended)
        async for batch in raw_entries(self._client, self._tenant, after=after, last=seq):
            missing -= {fields.get(b"release", b"").decode() for _, fields in batch}
        return [
            *(f"the record of the hold {release} is missing" for release in sorted(missing)),
            *(f"the hold {release} does not have the amounts in the journal" for release in sorted(self._forged)),
        ]

    def _read(self, release: str, stored: bytes | None, digest: str) -> None:
        try:
            record = msgpack.unpackb(stored, raw=True) if stored else {}  # `reserved` in it is not text
            if record.get(b"state") != b"held":
                self._ended.add(release)
                return
            rows = record[b"subject_rows"]
            if hashlib.sha256(rows).hexdigest() == digest:
                amounts = wire.subject_amounts(self._tenant, rows)
                self._rows[release] = tuple((key_of(amount), amount.vector) for amount in amounts)
                return
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            pass
        self._forged.add(release)

"""Reads the chain of seals across the border between the archive and Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from core.errors import LedgerNotTrusted
from core.ledger import names
from core.ledger.archive.reader import LedgerArchive
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.chain import Head, Seal, seal_entry
from core.ledger.keys import MasterKey
from core.ledger.pages import first_in_redis

_SEALS = 20  # a seal over thousands of tenants has megabytes


async def seals_between(
    client: LedgerClient, master_key: MasterKey, archive: LedgerArchive, first: int, last: int
) -> AsyncIterator[Seal]:
    """Yield the seals from number `first` to `last`, each genuine. Raises LedgerNotTrusted."""
    border = await first_in_redis(client, names.SEAL_CHAIN_KEY) or last + 1
    if first < border:
        async for seal in archive.seals(first, min(last, border - 1)):
            yield seal
    start = f"{max(first, border)}-0"
    while found := await client.call("XRANGE", names.SEAL_CHAIN_KEY, start, f"{last}-0", "COUNT", _SEALS):
        for raw in found:
            yield seal_entry(raw, master_key)
        start = f"({found[-1][0].decode()}"


# A seal, the first and the last entry of a tenant in it, and their digest.
SegmentRow = tuple[int, int, int, str]


async def segments_of(
    client: LedgerClient,
    master_key: MasterKey,
    archive: LedgerArchive,
    heads: Mapping[str, Head],
    wanted: Mapping[str, int],
) -> dict[str, list[SegmentRow]]:
    """Return the sealed segments of each tenant in `wanted` that are not archived, up to the one with its number.

    Raises LedgerNotTrusted if they do not follow each other.
    """
    found: dict[str, list[SegmentRow]] = {tenant: [] for tenant in wanted}
    firsts, lasts = [], []
    for tenant, up_to in wanted.items():
        key = names.segments_key(tenant)
        [first, last] = await client.call_many(
            [
                ("ZRANGEBYSCORE", key, heads[tenant].archived + 1, "+inf", "LIMIT", 0, 1),
                ("ZRANGEBYSCORE", key, up_to, "+inf", "LIMIT", 0, 1),
            ]
        )
        n, _, rest = first[0].partition(b":") if first else (b"1", b"", b"0:")
        is_indexed = int(rest.partition(b":")[0]) == heads[tenant].archived + 1
        firsts.append(int(n) if is_indexed else 1)
        lasts.append(int(last[0].partition(b":")[0]) if last else heads[tenant].n)
    async for seal in seals_between(client, master_key, archive, min(firsts), max(lasts)):
        for segment in seal.segments:
            if (
                segment.is_new
                and segment.last > heads[segment.tenant].archived
                and segment.first <= wanted.get(segment.tenant, 0)
            ):
                rows = found[segment.tenant]
                end = rows[-1][2] if rows else heads[segment.tenant].archived
                if segment.first != end + 1:
                    raise LedgerNotTrusted(f"Seals of the tenant {segment.tenant} are missing before seal {seal.id.n}.")
                rows.append((seal.id.n, segment.first, segment.last, segment.digest))
    return found

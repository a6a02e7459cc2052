"""How far the ledger is sealed and audited, and what is open: for a tenant, or for the operator."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from core.errors import LedgerNotTrusted, UnknownTenant
from core.ledger.hash_chain.audit import LastAudit, last_audit
from core.ledger.hash_chain.chain import Seal, SealChain, parse_head, seal_entry
from core.master_key import MasterKey
from core.redis import names
from core.redis.client import LedgerClient

_BATCH = 250


@dataclass(frozen=True)
class TenantIntegrity:
    """`sealed` is the last sealed entry of the journal, and `seal` the number of the last seal with a segment of the
    tenant; 0 for none.

    `overdue_ms` is the earliest deadline of a hold that no job owns; None if there is no such hold.
    """

    tenant: str
    entries: int
    sealed: int
    seal: int
    open_holds: int
    overdue_ms: int | None


@dataclass(frozen=True)
class LedgerIntegrity:
    """`last_seal` is the end of the chain, genuine; None before the first seal."""

    at_ms: int
    last_seal: Seal | None
    audit: LastAudit | None


class IntegrityReads:
    """Reads only. Every method raises LedgerUnavailable if Redis does not answer correctly."""

    def __init__(self, client: LedgerClient, master_key: MasterKey) -> None:
        self._client = client
        self._master_key = master_key

    async def ledger(self) -> LedgerIntegrity:
        """Return the end of the chain and the last audit. Raises LedgerNotTrusted for a seal that is not genuine."""
        found = await self._client.call("XREVRANGE", names.SEAL_CHAIN_KEY, "+", "-", "COUNT", 1)
        return LedgerIntegrity(
            at_ms=await self._client.now_ms(),
            last_seal=seal_entry(found[0], self._master_key) if found else None,
            audit=await last_audit(self._client, self._master_key),
        )

    async def entries(self) -> int:
        """Return how many entries all journals have."""
        listed, found = await self._client.tenants(), 0
        for start in range(0, len(listed), _BATCH):
            reads = [("HGET", names.tenant_key(tenant), "seq") for tenant in listed[start : start + _BATCH]]
            found += sum(int(seq or 0) for seq in await self._client.call_many(reads))
        return found

    async def tenant(self, tenant: str) -> TenantIntegrity:
        """Return one tenant, whose last seal is verified. Raises UnknownTenant, LedgerNotTrusted."""
        [found] = await self._tenants([tenant])
        if found is None:
            raise UnknownTenant
        if found.seal:
            chain = SealChain(self._client, self._master_key)
            segment = (await chain.seal(found.seal)).segment(tenant)
            if segment is None or segment.last != found.sealed:
                raise LedgerNotTrusted(f"Seal {found.seal} does not contain entry {found.sealed} of {tenant}.")
        return found

    async def tenants(self, *, after: str = "", limit: int) -> tuple[tuple[TenantIntegrity, ...], str | None]:
        """Return up to `limit` tenants by name after `after`, and the name to continue after. Reads no seals."""
        listed = await self._client.tenants()
        chosen = list(islice((name for name in listed if name > after), limit))
        found: list[TenantIntegrity] = []
        for start in range(0, len(chosen), _BATCH):
            found += [one for one in await self._tenants(chosen[start : start + _BATCH]) if one is not None]
        is_last = not chosen or chosen[-1] == listed[-1]
        return tuple(found), None if is_last else chosen[-1]

    async def _tenants(self, chosen: Sequence[str]) -> list[TenantIntegrity | None]:
        """Return tenants by name; None for the name of an interrupted `open_tenant`."""
        return await asyncio.gather(*(self._tenant(tenant) for tenant in chosen))

    async def _tenant(self, tenant: str) -> TenantIntegrity | None:
        record, head, overdue = await self._client.call_many(
            [
                ("HMGET", names.tenant_key(tenant), "mode", "seq", "holds"),
                ("HGET", names.SEAL_HEADS_KEY, tenant),
                ("ZRANGEBYSCORE", names.overdue_key(tenant), "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 1),
            ]
        )
        mode, seq, holds = record
        if mode is None:
            return None
        sealed = parse_head((head or b"0 0").decode())
        return TenantIntegrity(
            tenant=tenant,
            entries=int(seq or 0),
            sealed=sealed.last,
            seal=sealed.n,
            open_holds=int(holds or 0),
            overdue_ms=int(float(overdue[1])) if overdue else None,
        )

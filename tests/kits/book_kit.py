"""A ledger with seals whose data a test may tamper with, and set back to copies."""

from dataclasses import dataclass, field
from pathlib import Path

from ledger_audit_kit import faults_of
from ledger_kit import MASTER_KEY, charge

from core.ledger.hash_chain.audit import audit_ledger
from core.ledger.hash_chain.epoch import EpochStore
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.transitions import Ledger
from core.redis.client import LedgerClient


@dataclass
class Book:
    """A ledger whose data a test may tamper with, and copies of it."""

    client: LedgerClient
    admin: LedgerClient
    epoch_file: Path
    copies: dict[str, dict[bytes, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.client, MASTER_KEY)
        self.sealer = self.fresh_sealer()

    def fresh_sealer(self, epoch_file: Path | None = None, epoch_store: EpochStore | None = None) -> Sealer:
        """As another gateway, or this one after a restart, would have it."""
        return Sealer(self.client, MASTER_KEY, epoch_file or self.epoch_file, epoch_store=epoch_store)

    async def release(self, tenant: str = "acme", subject: str | None = None) -> None:
        hold = await self.ledger.reserve(tenant, [charge(1, subject=subject)])
        await self.ledger.commit(tenant, hold.release_id)

    async def copy(self, name: str, pattern: str = "*") -> None:
        keys = await self.admin.call("KEYS", pattern)
        self.copies[name] = {key: await self.admin.call("DUMP", key) for key in keys}

    async def restore(self, name: str, pattern: str = "*") -> None:
        for key in await self.admin.call("KEYS", pattern):
            await self.admin.call("DEL", key)
        for key, value in self.copies[name].items():
            await self.admin.call("RESTORE", key, 0, value)

    async def rewrite(self, stream: str, change) -> None:
        """Replace a stream by what `change` makes of each (id, fields); None leaves an entry out."""
        entries = await self.admin.call("XRANGE", stream, "-", "+")
        await self.admin.call("DEL", stream)
        for entry_id, fields in entries:
            changed = change(entry_id, dict(fields))
            if changed is not None:
                await self.admin.call("XADD", stream, entry_id, *(part for pair in changed.items() for part in pair))

    async def faults(self) -> str:
        """Everything that the audit says, "" when it agrees."""
        return faults_of(await audit_ledger(self.client, MASTER_KEY, self.epoch_file))

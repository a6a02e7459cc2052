"""A ledger with several seals and an archive in a folder, for tests of the border between Redis and the archive."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger_audit_kit import faults_of
from ledger_kit import MASTER_KEY, charge, limits

from core.blobs.local import LocalBlobs
from core.ledger.archive.archiver import Archiver, ArchiveRound
from core.ledger.archive.store import LedgerArchive
from core.ledger.hash_chain.audit import audit_ledger
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.pages import first_in_redis
from core.ledger.transitions import Ledger
from core.redis import names
from core.redis.client import LedgerClient
from core.reports.ranks import SubjectRanks
from core.reports.series import JournalFold, LedgerSeries, SpendingTotals

KEEP_SEALS = 3
POLICY = {"keep_entries": 6, "object_bytes": 4_000, "keep_seals": KEEP_SEALS}  # an object has about three seals


class Stop(Exception):
    """Ends a round at a step, as a crash would."""


@dataclass
class Shelf:
    """A ledger and its archive, with every part that a gateway has."""

    client: LedgerClient
    folder: Path
    trim_client: LedgerClient | None = None
    blobs: LocalBlobs = None  # type: ignore[assignment]  # by default a store in the folder
    folds: list[JournalFold] = field(init=False)

    def __post_init__(self) -> None:
        self.blobs = self.blobs or LocalBlobs(self.folder / "store")
        self.epoch_file = self.folder / "epoch"
        self.archive = LedgerArchive(self.client, MASTER_KEY, self.blobs)
        self.ledger = Ledger(self.client, MASTER_KEY, archive=self.archive)
        self.sealer = Sealer(self.client, MASTER_KEY, self.epoch_file, continues=self.archive.continues, repeat_after=1)
        self.folds = [
            LedgerSeries(self.client, archive=self.archive),
            SpendingTotals(self.client, archive=self.archive),
        ]
        self.ranks = SubjectRanks(self.client, archive=self.archive)

    async def start(self) -> None:
        await self.ledger.check()
        await self.sealer.check()

    async def open(self, tenant: str = "acme", *, subjects: bool = False) -> None:
        await self.ledger.open_tenant(tenant, limits=limits(10_000), subject_limits=limits(1000) if subjects else None)

    async def release(
        self, tenant: str = "acme", subject: str | Sequence[str] | None = None, ending: str = "commit"
    ) -> None:
        subjects = [subject] if subject is None or isinstance(subject, str) else subject
        hold = await self.ledger.reserve(tenant, [charge(1, subject=one) for one in subjects])
        if ending == "commit":
            await self.ledger.commit(tenant, hold.release_id)
        elif ending != "open":
            await getattr(self.ledger, ending)(tenant, hold.release_id, reason="test")

    async def history(self, seals: int, *, tenant: str = "acme", each: int = 2, subject: str | None = None) -> None:
        """Make so many seals over `each` releases each, and fold."""
        for _ in range(seals):
            for _ in range(each):
                await self.release(tenant, subject)
            await self.sealer.seal()
        await self.fold()

    async def fold(self) -> None:
        for fold in self.folds:
            await fold.fold_all()
        await self.ranks.rank_all()

    def archiver(self, after_step: Callable[[str], object] = str, **policy: Any) -> Archiver:
        return Archiver(
            self.client, MASTER_KEY, self.sealer, self.archive, trim_client=self.trim_client or self.client,
            after_step=after_step, **(POLICY | policy),
        )  # fmt: skip

    async def round(self, **policy: Any) -> ArchiveRound:
        return await self.archiver(**policy).run_once()

    async def first(self, tenant: str = "acme") -> int | None:
        return await first_in_redis(self.client, names.journal_key(tenant))

    async def numbers(self, tenant: str = "acme", account: str | None = None, **query: Any) -> list[int]:
        """The numbers of all entries of a view, page by page."""
        found: list[int] = []
        cursor: int | None = 0
        while cursor is not None:
            page = await self.ledger.journal(tenant, account, cursor=cursor, limit=7, **query)
            found += [entry.seq for entry in page.entries]
            cursor = page.next_cursor
        return found

    async def faults(self, archive: LedgerArchive | None = None) -> str:
        """Everything that the audit says, "" when it agrees."""
        return faults_of(await audit_ledger(self.client, MASTER_KEY, self.epoch_file, archive=archive or self.archive))

    def objects(self) -> list[Path]:
        return sorted((self.folder / "store" / "archive").glob("*/*-*"))


def another(go: Any, shelf: Shelf, blobs: LocalBlobs | None = None) -> Shelf:
    """Another process on the same ledger and archive."""
    other = Shelf(shelf.client, shelf.folder, trim_client=shelf.trim_client)
    if blobs is not None:
        other.archive = LedgerArchive(shelf.client, MASTER_KEY, blobs)
    go(other.start())
    return other


def audited(go: Any, shelf: Shelf) -> str:
    """What an audit says that reads every object again."""
    found: str = go(shelf.faults(LedgerArchive(shelf.client, MASTER_KEY, shelf.blobs)))
    return found

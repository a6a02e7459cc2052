"""Two ledgers and the moves of a tenant between them, which a test may end before or after any command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archive_kit import Shelf
from ledger_kit import MASTER_KEY, charge, claim, limits

from core.errors import TenantMoving, UnknownTenant
from core.job_errors import JobFailed
from core.ledger import names
from core.ledger.archive.reader import LedgerArchive
from core.ledger.client import LedgerClient, connect
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.job_records import JobStatus
from core.ledger.jobs import JobStore
from core.ledger.move.sides import LedgerSide
from core.ledger.move.tenant_move import TenantMove
from core.ledger.records import Replay
from core.ledger.reuse import ReuseStore
from core.ledger.stored_files import ARTIFACTS, NamedEntry, StoredEntry, StoredFileIndex, StoredPart
from core.ledger.vault import Vault

TENANT = "acme"
HOMES = "{ledgers}:homes"
BYTES_MAX = 1 << 30


class Crash(BaseException):
    """The process of the move ends."""


@dataclass
class Plan:
    """Before or after which command of a run, counted over both ledgers, the process ends; 0 for never."""

    at: int = 0
    after: bool = False
    commands: int = 0
    pause: Callable[[int], Any] | None = None  # awaited before each command


class CrashingClient(LedgerClient):
    def __init__(self, url: str, plan: Plan) -> None:
        super().__init__(connect(url=url))
        self._plan = plan

    async def call(self, *command: str | bytes | int) -> Any:
        return await self._counted(super().call, *command)

    async def run(self, name: str, **args: Any) -> Any:
        return await self._counted(super().run, name, **args)

    async def _counted(self, send: Any, *args: Any, **kwargs: Any) -> Any:
        self._plan.commands += 1
        number = self._plan.commands
        if self._plan.pause is not None:
            await self._plan.pause(number)
        if self._plan.at and number >= self._plan.at + self._plan.after:
            raise Crash
        reply = await send(*args, **kwargs)
        if number == self._plan.at:
            raise Crash
        return reply


@dataclass
class HashHomes:
    """The map of homes on the first ledger."""

    client: LedgerClient

    async def home(self, tenant: str) -> str:
        found = await self.client.call("HGET", HOMES, tenant)
        return found.decode() if found else "main"

    async def set_home(self, tenant: str, ledger: str) -> None:
        await self.client.call("HSET", HOMES, tenant, ledger)


@dataclass
class Site:
    """A ledger with a gateway's parts (`shelf`, with the ledger's rights) and the operator's connection."""

    name: str
    url: str
    admin_url: str
    folder: Path
    shelf: Shelf = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.client = LedgerClient(connect(url=self.url))
        self.admin = LedgerClient(connect(url=self.admin_url))
        self.renew()

    def renew(self) -> None:
        """Start a new gateway process, which has seen nothing."""
        self.shelf = Shelf(self.client, self.folder, trim_client=self.admin)

    async def close(self) -> None:
        await self.client.close()
        await self.admin.close()

    async def contents(self, tenant: str = TENANT) -> dict[str, Any]:
        """Every key of the tenant, with whether it expires."""
        found: dict[str, Any] = {}
        for key in await self.admin.call("KEYS", f"{{{tenant}}}:*"):
            name = key.decode().partition("}:")[2]
            kind = (await self.admin.call("TYPE", key)).decode()
            read = {
                "string": ("GET", key),
                "hash": ("HGETALL", key),
                "zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
                "set": ("SMEMBERS", key),
                "stream": ("XRANGE", key, "-", "+"),
            }[kind]
            found[name] = await self.admin.call(*read), int(await self.admin.call("PTTL", key)) >= 0
        return found


@dataclass
class Snapshot:
    """The content of a Redis and the epoch file, to start again from."""

    site: Site
    keys: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    epoch: bytes | None = None

    async def take(self) -> Snapshot:
        for key in await self.site.admin.call("KEYS", "*"):
            self.keys[key] = await self.site.admin.call("DUMP", key), await self.site.admin.call("PTTL", key)
        file = self.site.shelf.epoch_file
        self.epoch = file.read_bytes() if file.exists() else None
        return self

    async def restore(self, *, epoch: bool = True) -> None:
        await self.site.admin.call("FLUSHALL")
        await asyncio.gather(
            *(self.site.admin.call("RESTORE", key, max(ttl, 0), dump) for key, (dump, ttl) in self.keys.items())
        )
        if epoch:
            self.site.shelf.epoch_file.unlink(missing_ok=True)
            if self.epoch is not None:
                self.site.shelf.epoch_file.write_bytes(self.epoch)
        self.site.renew()


class Mover:
    """Runs moves from `source` to `target`, each with connections of its own."""

    def __init__(self, main: Site) -> None:
        self.homes = HashHomes(main.admin)
        self.main = main
        self.plan = Plan()

    async def run(
        self, source: Site, target: Site, *, plan: Plan | None = None, abort: bool = False, **args: Any
    ) -> Any:
        """Run or abort a move once. Raises Crash as `plan` says."""
        self.plan = plan or Plan()
        clients: list[LedgerClient] = []

        async def side(site: Site) -> LedgerSide:
            client = CrashingClient(site.admin_url, self.plan)
            clients.append(client)
            archive = LedgerArchive(client, MASTER_KEY, site.shelf.blobs)
            sealer = Sealer(client, MASTER_KEY, site.shelf.epoch_file, continues=archive.continues)
            await sealer.check()
            return LedgerSide(site.name, client, sealer, site.shelf.epoch_file, archive)

        try:
            homes_client = CrashingClient(self.main.admin_url, self.plan)
            clients.append(homes_client)
            sides = await side(source), await side(target)
            move = TenantMove(TENANT, *sides, HashHomes(homes_client), MASTER_KEY, **({"settle_s": 0} | args))
            return await (move.abort() if abort else move.run())
        finally:
            for client in clients:
                await client.close()


async def fill(site: Site, *, releases: int = 2, subject: str | None = None) -> None:
    """Give the tenant at least one key of each kind that a tenant can have."""
    shelf = site.shelf
    for number in range(releases):
        hold = await shelf.ledger.reserve(
            TENANT, [charge(1, subject=subject)], claim=claim(f"key-{number}"), route="embed/sentdp"
        )
        await shelf.ledger.commit(TENANT, hold.release_id, response=b"answer %d" % number)
    await shelf.release(TENANT, subject, "cancel")
    await shelf.release(TENANT, subject, "expire")
    await Vault(site.client, MASTER_KEY, entries_max=10, bytes_max=10_000).put(TENANT, "name", b"kept", lifetime_s=3600)
    entry = StoredEntry({".json": StoredPart("blob", "0" * 64, 7)}, "key")
    await StoredFileIndex(site.client, bytes_max=BYTES_MAX).put(TENANT, NamedEntry(ARTIFACTS, "made", entry))
    jobs = JobStore(site.client, gateway="test")
    await jobs.create(
        TENANT, "a" * 32, kind="toy", label="job", claim="c", open_max=3, state="s", size=5, bytes_max=BYTES_MAX
    )
    await jobs.take(TENANT, "a" * 32, run="r", attempts_max=3, exhausted=JobFailed())
    await jobs.finish(TENANT, "a" * 32, run="r", status=JobStatus.SUCCEEDED, result={"count": 3})
    reuse = ReuseStore(site.client, MASTER_KEY, retention_ms=3_600_000, places=16)
    await reuse.keep(TENANT, "b" * 32, {"c" * 64: b"reused"})
    await shelf.ledger.set_current_limit(TENANT, f"{TENANT}/token", 500 * 10**9)
    await shelf.fold()


async def opened(site: Site, *, subjects: bool = False) -> None:
    await site.shelf.start()
    await site.shelf.ledger.open_tenant(TENANT, limits=limits(1000), subject_limits=limits(100) if subjects else None)


async def admitted(sites: tuple[Site, ...], subject: str | None = None) -> list[str]:
    """Try one release on each ledger. Return the names of those that admit it; there it is charged."""
    found = []
    for site in sites:
        try:
            await site.shelf.release(TENANT, subject)
        except (TenantMoving, UnknownTenant):
            continue
        found.append(site.name)
    return found


async def spent(site: Site) -> int:
    """The releases that the tenant has spent."""
    state = await site.shelf.ledger.account(TENANT, f"{TENANT}/sentence")
    return state.committed_vector[0]


async def replayed(site: Site, key: str, subject: str | None = None) -> bytes:
    """The stored answer under an Idempotency-Key."""
    found = await site.shelf.ledger.reserve(TENANT, [charge(1, subject=subject)], claim=claim(key))
    assert isinstance(found, Replay)
    return found.response


def keys_of(contents: dict[str, Any]) -> dict[str, Any]:
    """What a move copies unchanged: all but the record and the journal."""
    return {name: value for name, value in contents.items() if name not in ("tenant", "journal")}


async def sound(sites: tuple[Site, ...]) -> None:
    """A new gateway starts on each ledger and seals it, and the audit finds nothing."""
    for site in sites:
        site.renew()
        await site.shelf.start()
        await site.shelf.sealer.seal()
        assert await site.shelf.faults() == "", site.name


async def names_of(site: Site) -> set[str]:
    return {tenant.name for tenant in await site.shelf.ledger.tenants()}


RECORD = names.tenant_key(TENANT)

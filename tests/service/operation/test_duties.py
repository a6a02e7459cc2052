"""Two gateways' duties on one Redis: one does them, the other follows and takes over."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from event_kit import event
from redis_kit import GuardedServer, running_server

from core.accounting.events import Unit
from core.amounts import NANO, Amount
from core.ledger.records import Charge, Limit
from core.redis import names
from core.reports.ranks import SubjectRanks
from core.reports.series import LedgerSeries, SeriesQuery
from service.config.reading import load_master_key
from service.config.settings import Settings
from service.ledger_connection import LedgerParts, build_ledger
from service.operation import maintenance
from service.operation.maintenance import Duties

WITHIN_S = 300.0


class Peer:
    """The ledger and the duties of one gateway."""

    def __init__(self, parts: LedgerParts, settings: Settings) -> None:
        self.parts = parts
        self.series = LedgerSeries(parts.client)
        self.duties = Duties(settings, parts, folds=(self.series,), ranks=SubjectRanks(parts.client), is_alone=False)
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.parts.ledger.check()
        await self.parts.sealer.check()
        await self.parts.sealer.seal(always=True)
        await self.duties.begin()
        self.tasks = [asyncio.create_task(work) for work in self.duties.work()]

    async def die(self) -> None:
        """Its lease remains until it ends."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    @property
    def epoch(self) -> str:
        return self.parts.epoch_file.read_text()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GuardedServer]:
    with running_server(tmp_path / "redis", GuardedServer) as server:
        yield server


@asynccontextmanager
async def two(server: GuardedServer, folder: Path, *, lease_s: float) -> AsyncIterator[tuple[Peer, Peer]]:
    patch = pytest.MonkeyPatch()
    patch.setattr(maintenance, "DUTIES_LEASE_S", lease_s)
    for name in ("EXPIRE_INTERVAL_S", "SERIES_INTERVAL_S", "BUDGET_METRICS_INTERVAL_S"):
        patch.setattr(maintenance, name, 0.05)
    peers = []
    for name in ("one", "two"):
        settings = Settings(data_dir=folder / name, redis_url=server.url, master_key="11" * 32, seal_interval_s=0.05)
        settings.data_dir.mkdir()
        peers.append(Peer(build_ledger(settings, load_master_key(settings), socket=None), settings))
    try:
        for peer in peers:
            await peer.start()
        yield peers[0], peers[1]
    finally:
        patch.undo()
        for peer in peers:
            await peer.die()
            with contextlib.suppress(Exception):
                await peer.parts.ledger.close()


async def one_release_expires(one: Peer, two: Peer, tenant: str) -> None:
    """What the holder does for a tenant: its overdue hold is spent, sealed and in the series; both epochs advance."""
    ledger = one.parts.ledger
    await ledger.open_tenant(tenant, limits={unit: Limit(10 * NANO, 0, None) for unit in Unit})
    epochs = one.epoch, two.epoch
    await ledger.reserve(tenant, [Charge(event("pure", 1))], hold_ttl_ms=1)
    async with asyncio.timeout(WITHIN_S):
        while (await ledger.account(tenant, f"{tenant}/sentence")).committed != Amount(NANO):
            await asyncio.sleep(0.02)
        while not any(any(point.releases for point in row.points) for row in await rows(one, tenant)):
            await asyncio.sleep(0.02)
    await until(lambda: one.epoch == two.epoch and one.epoch not in epochs)


async def rows(peer: Peer, tenant: str) -> tuple[object, ...]:
    return (await peer.series.read(tenant, SeriesQuery())).series


def test_the_other_gateway_takes_over_after_a_death_and_after_a_stop(server: GuardedServer, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two(server, tmp_path, lease_s=600) as (first, second):
            assert (first.duties.lease.is_held, second.duties.lease.is_held) == (True, False)
            await one_release_expires(first, second, "before")
            assert not second.duties.lease.is_held

            await first.die()
            assert not await second.duties.lease.take()
            await second.parts.client.call("PEXPIRE", names.DUTIES_KEY, 0)  # the lease ends, as it does after its time
            assert await second.duties.lease.take()  # what its next attempt does
            assert second.duties.lease.fence == "2"
            ledger = second.parts.ledger
            await ledger.open_tenant("after", limits={unit: Limit(10 * NANO, 0, None) for unit in Unit})
            await ledger.reserve("after", [Charge(event("pure", 1))], hold_ttl_ms=1)
            async with asyncio.timeout(WITHIN_S):
                while (await ledger.account("after", "after/sentence")).committed != Amount(NANO):
                    await asyncio.sleep(0.02)

    asyncio.run(scenario())


def test_an_orderly_stop_gives_the_lease_away_at_once(server: GuardedServer, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two(server, tmp_path, lease_s=600) as (first, second):
            await first.die()
            await first.duties.end()
            assert await second.duties.lease.take()  # what its next attempt does
            assert second.duties.lease.fence == "2"

    asyncio.run(scenario())

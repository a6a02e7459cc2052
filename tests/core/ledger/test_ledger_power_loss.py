"""Loss of power, simulated: after SIGKILL every file is cut to the length of its last successful fsync.

SIGKILL alone shows nothing about fsync: what the server wrote is in the page cache and outlives the process.
"""

import asyncio
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY, charge, limits
from redis_kit import RedisProcess

from core.amounts import NANO
from core.errors import LedgerUnavailable
from core.ledger.transitions import Ledger
from core.redis.client import LedgerClient, connect

pytestmark = pytest.mark.slow("crash")

CLIENTS = 16
ROUNDS = 6


@dataclass
class Acknowledged:
    """The releases whose hold or commit the ledger has acknowledged."""

    held: list[str] = field(default_factory=list)
    committed: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def shim(tmp_path_factory) -> Path:
    """The compiled synced_sizes.c."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the simulation notes every fsync in a preloaded library")
    library = tmp_path_factory.mktemp("shim") / "synced_sizes.so"
    source = Path(__file__).with_name("synced_sizes.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.fixture
def machine(server, shim, tmp_path):
    """A server of the same kind as `server`, of whose disk only what was synced survives."""
    if b"ld-linux" not in _binary(server).read_bytes():
        pytest.skip("this redis-server is linked statically: nothing can be preloaded")
    machine = Machine(type(server)(tmp_path), shim)
    yield machine
    machine.redis.stop()


def _binary(server: RedisProcess) -> Path:
    return Path(f"/proc/{server.pid}/exe").resolve()


class Machine:
    """A server and the disk under it."""

    def __init__(self, redis: RedisProcess, shim: Path) -> None:
        self.redis = redis
        self._notes = redis.folder / "synced-sizes"
        self._preload = {"LD_PRELOAD": str(shim), "SYNCED_SIZES": str(self._notes)}

    def start(self) -> None:
        self.redis.start(**self._preload)
        with self.redis.admin() as admin:
            admin.set("readiness", "written and synced")

    def syncs(self) -> int:
        return self._notes.read_bytes().count(b"\n") if self._notes.exists() else 0

    def lose_power(self) -> int:
        """SIGKILL, then cut every file of the append-only log to its last synced length; returns the bytes lost."""
        self.redis.kill()
        assert self.syncs() > 0, "the library was not preloaded"
        synced: dict[int, int] = {}
        for line in self._notes.read_text().splitlines():
            inode, size = line.split()
            synced[int(inode)] = int(size)
        lost = 0
        for path in self._files():
            found = path.stat()
            kept = min(synced.get(found.st_ino, 0), found.st_size)
            lost += found.st_size - kept
            with path.open("r+b") as file:
                file.truncate(kept)
        return lost

    def _files(self) -> list[Path]:
        """`ledger.aof` of the embedded server, `appendonlydir/` of 7.0."""
        return [path for path in self.redis.folder.rglob("*") if ".aof" in path.name and path.is_file()]


async def serve_until(
    ledger: Ledger, acknowledged: Acknowledged, enough: Callable[[], bool], kill: Callable[[], None]
) -> None:
    """Concurrent releases until `enough`, then `kill` in the middle of them."""

    async def work() -> None:
        while True:
            try:
                hold = await ledger.reserve("acme", [charge(1)])
                acknowledged.held.append(hold.release_id)
                await ledger.commit("acme", hold.release_id, response=b"x")
                acknowledged.committed.append(hold.release_id)
            except LedgerUnavailable:
                return

    workers = [asyncio.create_task(work()) for _ in range(CLIENTS)]
    while not enough():
        await asyncio.sleep(0.001)
    await asyncio.to_thread(kill)
    await asyncio.gather(*workers)


async def survivors(ledger: Ledger) -> tuple[set[str], set[str]]:
    """The releases that the journal knows as held, and as committed."""
    found: dict[str, set[str]] = {"reserve": set(), "commit": set()}
    cursor: int | None = 0
    while cursor is not None:
        page = await ledger.journal("acme", cursor=cursor, limit=1000)
        for entry in page.entries:
            if entry.release_id:
                found[entry.transition].add(entry.release_id)
        cursor = page.next_cursor
    return found["reserve"], found["commit"]


def test_no_acknowledged_transition_is_lost_with_the_power(go, machine):
    acknowledged, dice = Acknowledged(), random.Random(4)

    async def outage(first: bool) -> None:
        machine.start()
        client = LedgerClient(connect(url=machine.redis.url))
        ledger = Ledger(client, MASTER_KEY)
        await ledger.check()
        if first:
            await ledger.open_tenant("acme", limits=limits(1_000_000))
        target = len(acknowledged.committed) + dice.randint(20, 400)
        await serve_until(ledger, acknowledged, lambda: len(acknowledged.committed) >= target, machine.lose_power)
        await client.close()

    async def afterwards():
        machine.start()
        client = LedgerClient(connect(url=machine.redis.url))
        ledger = Ledger(client, MASTER_KEY)
        held, committed = await survivors(ledger)
        state, report = await ledger.account("acme", "acme/sentence"), await audit(ledger)
        await client.close()
        return held, committed, state, report

    for number in range(ROUNDS):
        go(outage(number == 0))
        held, committed, state, report = go(afterwards())
        machine.redis.stop()
        assert report.ok, report
        assert held >= set(acknowledged.held)
        assert committed >= set(acknowledged.committed)
        assert state.committed.epsilon_nano >= len(acknowledged.committed) * NANO
        assert (state.committed.epsilon_nano + state.reserved.epsilon_nano) >= len(acknowledged.held) * NANO
    print(f"0 of {len(acknowledged.held)} acknowledged holds lost")

"""The ledger on the embedded Redis with `appendfsync always`, against redis-benchmark on the same server.

    python -m benchmarks.ledger [--parts throughput,memory,journal] [--directory PATH] [--redis-server PATH]

throughput: each client reserves (two accounts, an idempotency key) and commits (a 4 KiB response) in a closed loop, one
process for all of them, on uvloop as the gateway. In turn with it, `redis-benchmark` with the same number of clients
sends EVALSHA of a script that adds as many bytes to the append-only file: with one write command, and with as many
as a transition has. The ratio is transitions (a reserve or a commit) to EVALSHA; medians over the rounds.
memory: bytes a subject account. journal (minutes; runs a gateway): reads of the budget beside 1,000,000 entries.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from benchmarks.redis_peer import Peer, PeerResult, aof_bytes, available
from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import EPSILON_MAX, FEMTO, NANO
from core.ledger.client import LedgerClient, connect
from core.ledger.counters import LARGEST
from core.ledger.embedded import attached, socket_path
from core.ledger.hash_chain.audit import audit_tenant
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger, TenantCaps
from core.ledger.records import Charge, Limit

CLIENTS = (1, 32, 64)
PEER_REQUESTS = {1: 10_000, 32: 60_000, 64: 60_000}
RESPONSE = bytes(4096)
WRITES = ("set", "hset", "hdel", "hincrby", "xadd", "zadd", "zrem", "pexpire", "persist", "del")
ACCOUNTS = 100_000
SUBJECTS_A_RELEASE = 100
ENTRIES = 1_000_000
READS = 500
PARTS = ("throughput", "memory", "journal")
LIMITS = {unit: Limit(EPSILON_MAX * NANO, FEMTO // 10**6) for unit in Unit}  # every arm is offered


def event(unit: Unit) -> PrivacyEvent:
    return PrivacyEvent(
        mechanism="benchmark",
        kind="exponential",
        unit=unit,
        adjacency=Adjacency.REPLACE_ONE,
        guarantee=Guarantee.PURE_DP,
        epsilon_nano=NANO // 10,
    )


CHARGE = Charge(event(Unit.SENTENCE))


def quantiles(times: list[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(times, n=100)
    return cuts[49], cuts[94], cuts[98]


def fdatasync_times(directory: Path, *, count: int = 300) -> list[float]:
    """Milliseconds of a small append and its fdatasync."""
    times = []
    with directory.joinpath("fdatasync").open("ab", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter()
            file.write(bytes(512))
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1000)
    return times


async def transitions(
    ledger: Ledger, key: MasterKey, *, clients: int, seconds: float, run: str
) -> dict[str, list[float]]:
    """Milliseconds of every reserve and commit."""
    times: dict[str, list[float]] = {"reserve": [], "commit": []}
    until = time.perf_counter() + seconds

    async def client(number: int) -> None:
        count = 0
        while time.perf_counter() < until:
            count += 1
            claim = key.claim(tenant="bench", route="/bench", key=f"{run}-{number}-{count}", body=b"{}")
            start = time.perf_counter()
            hold = await ledger.reserve("bench", [CHARGE], claim=claim)
            middle = time.perf_counter()
            await ledger.commit("bench", hold.release_id, response=RESPONSE)
            end = time.perf_counter()
            times["reserve"].append((middle - start) * 1000)
            times["commit"].append((end - middle) * 1000)

    await asyncio.gather(*(client(number) for number in range(clients)))
    return times


def row(clients: int, what: str, per_second: float, times: tuple[float, float, float], ratio: str = "") -> None:
    p50, p95, p99 = times
    print(f"{clients:>7}  {what:<18} {per_second:>9.0f} {p50:8.2f} {p95:8.2f} {p99:8.2f} {ratio:>7}", flush=True)


async def throughput(directory: Path, redis_server: Path | None, *, seconds: float, rounds: int) -> None:
    key = MasterKey(bytes(32))
    async with attached(directory, redis_server=redis_server) as socket:
        client = LedgerClient(connect(socket_path=socket))
        ledger = Ledger(client, key, caps=TenantCaps(stored_bytes_max=LARGEST))  # 4 KiB a release, for an hour
        await ledger.check()
        await client.call("CONFIG", "SET", "auto-aof-rewrite-percentage", 0)  # it would count as fewer bytes
        await ledger.open_tenant("bench", limits=LIMITS)

        async def written() -> tuple[int, int]:
            stats = await client.call("INFO", "commandstats")
            return await aof_bytes(client), sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in WRITES)

        (bytes_before, writes_before) = await written()
        warm = await transitions(ledger, key, clients=8, seconds=seconds / 2, run="warm")
        count = 2 * len(warm["commit"])
        size, writes = (
            (now - then) / count for now, then in zip(await written(), (bytes_before, writes_before), strict=True)
        )
        p50, p95, p99 = quantiles(fdatasync_times(directory))
        print(f"fdatasync alone: p50 {p50:.2f}, p95 {p95:.2f}, p99 {p99:.2f} ms")
        print(f"a transition writes {size:.0f} bytes in {writes:.1f} commands to the append-only file\n")
        peers = {1: Peer(client, socket, writes=1), round(writes): Peer(client, socket, writes=round(writes))}
        if available():
            for peer in peers.values():
                await peer.calibrate(round(size))
        else:
            print("redis-benchmark is not installed: no peer\n")
            peers = {}
        print(f"{'clients':>7}  {'what':<18} {'per s':>9} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} {'ratio':>7}")
        for clients in CLIENTS:
            ours: list[float] = []
            times: dict[str, list[float]] = {"reserve": [], "commit": []}
            theirs: dict[int, list[PeerResult]] = {number: [] for number in peers}
            for number in range(rounds):
                found = await transitions(ledger, key, clients=clients, seconds=seconds, run=f"{clients}-{number}")
                ours.append(2 * len(found["commit"]) / seconds)
                for step, values in found.items():
                    times[step] += values
                for writes_a_request, peer in peers.items():
                    theirs[writes_a_request].append(await peer.run(clients=clients, requests=PEER_REQUESTS[clients]))
            rate = statistics.median(ours)
            for step, values in times.items():
                row(clients, step, rate / 2, quantiles(values))
            row(clients, "transitions", rate, quantiles(times["reserve"] + times["commit"]))
            for writes_a_request, results in theirs.items():
                ratio = statistics.median(mine / peer.per_second for mine, peer in zip(ours, results, strict=True))
                middle = sorted(results, key=lambda result: result.per_second)[len(results) // 2]
                quantile = (middle.p50_ms, middle.p95_ms, middle.p99_ms)
                row(clients, f"peer, {writes_a_request} write(s)", middle.per_second, quantile, f"{ratio:.2f}")
        await audited(ledger)


async def memory(directory: Path, redis_server: Path | None) -> None:
    """Subject accounts are opened by the releases that first debit them."""
    async with attached(directory, redis_server=redis_server) as socket:
        client = LedgerClient(connect(socket_path=socket))
        ledger = Ledger(client, MasterKey(bytes(32)))
        await ledger.open_tenant("memory", limits=LIMITS, subject_limits=LIMITS)

        async def used() -> int:
            return int((await client.call("INFO", "memory"))["used_memory"])

        async def of_key(key: str) -> int:
            return int(await client.call("MEMORY", "USAGE", key, "SAMPLES", 0) or 0)

        before = await used()
        for first in range(0, ACCOUNTS, SUBJECTS_A_RELEASE):
            subjects = range(first, first + SUBJECTS_A_RELEASE)
            charges = [Charge(event(Unit.TOKEN), f"subject-{subject}") for subject in subjects]
            hold = await ledger.reserve("memory", charges)
            await ledger.commit("memory", hold.release_id)
        grown = await used() - before
        journal = await of_key("{memory}:journal")
        index = await of_key("{memory}:accounts")
        start = time.perf_counter()
        count = len(await ledger.accounts("memory"))
        read_s = time.perf_counter() - start
        print(f"\nmemory of {ACCOUNTS:,} subject accounts, opened {SUBJECTS_A_RELEASE} a release, MB (10^6):")
        print(f"all {grown / 1e6:.1f}; of it the journal {journal / 1e6:.1f}, the index of accounts {index / 1e6:.1f}")
        print(f"without the journal {(grown - journal) / ACCOUNTS:.0f} bytes an account")
        print(f"all {count:,} accounts read at once: {read_s * 1000:.0f} ms")
        await ledger.close()


async def journal(parent: Path | None, *, entries_max: int) -> None:
    """`GET /budget` of a real gateway and the ledger's own read beside a long journal of the same tenant."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
    from gateway_kit import Gateway

    from service.config.secrets import load_master_key
    from service.config.settings import Settings

    with tempfile.TemporaryDirectory(dir=parent) as folder:
        data_dir = Path(folder) / "data"
        gateway = Gateway(data_dir)
        try:
            tenant = gateway.tenant(epsilon=EPSILON_MAX)
            client = LedgerClient(connect(socket_path=socket_path(data_dir)))
            ledger = Ledger(client, load_master_key(Settings(data_dir=data_dir)))
            entries = int(await client.call("XLEN", f"{{{tenant.name}}}:journal"))
            print(f"\n{'entries':>9}  {'what':<26} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8}")
            for upto in (entries, entries_max):
                started = time.perf_counter()
                await _lengthen(ledger, tenant.name, upto - entries)
                entries = int(await client.call("XLEN", f"{{{tenant.name}}}:journal"))
                took = time.perf_counter() - started
                times = quantiles(_get_budget(gateway.port, tenant.key))
                print(
                    f"{entries:>9,}  {'GET /budget, catching up':<26} " + " ".join(f"{value:8.2f}" for value in times)
                )
                await _folded_and_sealed(client, tenant.name)
                times = quantiles(_get_budget(gateway.port, tenant.key))
                print(f"{entries:>9,}  {'GET /budget over HTTP':<26} " + " ".join(f"{value:8.2f}" for value in times))
                times = quantiles(await _timed(lambda: ledger.accounts(tenant.name)))
                print(f"{entries:>9,}  {'ledger.accounts()':<26} " + " ".join(f"{value:8.2f}" for value in times))
            print(f"({took:.0f} s to write the entries)")
            await ledger.close()
        finally:
            gateway.stop()


async def _folded_and_sealed(client: LedgerClient, tenant: str) -> None:
    """Wait until the gateway has folded and sealed every entry."""
    while True:
        seq, folded = await client.call("HMGET", f"{{{tenant}}}:tenant", "seq", "folded")
        head = await client.call("HGET", "{seals}:heads", tenant)
        if folded == seq and head is not None and head.split()[0] == seq:
            return
        await asyncio.sleep(0.5)


async def _lengthen(ledger: Ledger, tenant: str, entries: int) -> None:
    left = entries // 2  # a release is two entries

    async def client() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            hold = await ledger.reserve(tenant, [CHARGE])
            await ledger.commit(tenant, hold.release_id)

    await asyncio.gather(*(client() for _ in range(128)))


async def _timed(read: Callable[[], Awaitable[object]]) -> list[float]:
    times = []
    for _ in range(READS):
        start = time.perf_counter()
        await read()
        times.append((time.perf_counter() - start) * 1000)
    return times


def _get_budget(port: int, key: str) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    times = []
    for _ in range(READS):
        start = time.perf_counter()
        connection.request("GET", "/budget", headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        body = answer.read()
        times.append((time.perf_counter() - start) * 1000)
        if answer.status != 200:
            raise RuntimeError(body.decode())
    connection.close()
    return times


async def audited(ledger: Ledger) -> None:
    reports = [await audit_tenant(ledger._client, tenant.name) for tenant in await ledger.tenants()]
    await ledger.close()
    if not all(report.ok for report in reports):
        raise SystemExit(f"the audit failed: {reports}")


async def main(options: argparse.Namespace) -> None:
    parts = options.parts.split(",")
    if not set(parts) <= set(PARTS):
        raise SystemExit(f"the parts are {', '.join(PARTS)}")
    if "throughput" in parts:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            await throughput(Path(directory), options.redis_server, seconds=options.seconds, rounds=options.rounds)
    if "memory" in parts:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            await memory(Path(directory), options.redis_server)
    if "journal" in parts:
        await journal(options.directory, entries_max=options.entries)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="throughput,memory")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--entries", type=int, default=ENTRIES, help="length of the journal")
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--redis-server", type=Path)
    uvloop.run(main(parser.parse_args()))

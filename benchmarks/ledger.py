"""The ledger on the embedded Redis with `appendfsync always`, against redis-benchmark on the same server.

    python -m benchmarks.ledger [--parts throughput memory] [--directory PATH] [--redis-server PATH]

throughput: each client reserves (two accounts, an idempotency key) and commits (a 4 KiB response) in a closed loop, one
process for all of them, on uvloop as the gateway. In turn with it, `redis-benchmark` with the same number of clients
sends EVALSHA of a script that adds as many bytes to the append-only file: with one write command, and with as many
as a transition has. The ratio is transitions (a reserve or a commit) to EVALSHA; medians over the rounds.
memory: bytes a subject account.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks.kit import arguments, head, row
from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import EPSILON_MAX, FEMTO, NANO
from core.ledger.counters import LARGEST
from core.ledger.hash_chain.audit import audit_tenant
from core.ledger.records import Charge, Limit
from core.ledger.transitions import Ledger, TenantCaps
from core.master_key import MasterKey
from core.redis.client import LedgerClient, connect
from core.redis.embedded import attached

CLIENTS = (1, 32, 64)
PEER_REQUESTS = {1: 10_000, 32: 60_000, 64: 60_000}
RESPONSE = bytes(4096)
WRITES = ("set", "hset", "hdel", "hincrby", "xadd", "zadd", "zrem", "pexpire", "persist", "del")
ACCOUNTS = 100_000
SUBJECTS_A_RELEASE = 100
PEER_KEYS = 100_000  # redis-benchmark draws the key anew for each request
CALIBRATION_REQUESTS = 500
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


class PeerResult(NamedTuple):
    """What redis-benchmark reports: requests a second, and quantiles in milliseconds."""

    per_second: float
    quantiles: tuple[float, float, float]


async def aof_bytes(client: LedgerClient) -> int:
    return int((await client.call("INFO", "persistence"))["aof_current_size"])


class Peer:
    """A script of `writes` write commands that together add `size` bytes to the append-only file."""

    def __init__(self, client: LedgerClient, socket: Path, *, writes: int) -> None:
        self._client = client
        self._socket = socket
        self._writes = writes
        self._value = ""
        self._sha = ""

    async def calibrate(self, size: int) -> None:
        """Choose the value so that one request writes `size` bytes, framing included."""
        calls = [f"redis.call('SET', KEYS[1] .. '{number}', ARGV[1])" for number in range(self._writes)]
        self._sha = (await self._client.call("SCRIPT", "LOAD", "\n".join(calls))).decode()
        self._value = "x"
        before = await aof_bytes(self._client)
        await self.run(clients=1, requests=CALIBRATION_REQUESTS)
        framing = (await aof_bytes(self._client) - before) / CALIBRATION_REQUESTS - self._writes
        self._value = "x" * max(1, round((size - framing) / self._writes))

    async def run(self, *, clients: int, requests: int) -> PeerResult:
        arguments = ["-s", str(self._socket), "-c", str(clients), "-n", str(requests), "-r", str(PEER_KEYS), "--csv"]
        command = ["EVALSHA", self._sha, "1", "peer:__rand_int__:", self._value]
        process = await asyncio.create_subprocess_exec(
            "redis-benchmark", *arguments, *command, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        rate, *times = (float(output.decode().splitlines()[-1].split(",")[i].strip('"')) for i in (1, 4, 5, 6))
        return PeerResult(rate, tuple(times))


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


def show(clients: int, what: str, per_second: float, times: tuple[float, ...], ratio: str = "") -> None:
    row(clients, what, f"{per_second:.0f}", *(f"{value:.2f}" for value in times), ratio)


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
        if shutil.which("redis-benchmark"):
            for peer in peers.values():
                await peer.calibrate(round(size))
        else:
            print("redis-benchmark is not installed: no peer\n")
            peers = {}
        head("clients", "what", "per s", "p50 ms", "p95 ms", "p99 ms", "ratio")
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
                show(clients, step, rate / 2, quantiles(values))
            show(clients, "transitions", rate, quantiles(times["reserve"] + times["commit"]))
            for writes_a_request, results in theirs.items():
                ratio = statistics.median(mine / peer.per_second for mine, peer in zip(ours, results, strict=True))
                middle = sorted(results)[len(results) // 2]
                show(clients, f"peer, {writes_a_request} write(s)", *middle, f"{ratio:.2f}")
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


async def audited(ledger: Ledger) -> None:
    reports = [await audit_tenant(ledger._client, tenant.name) for tenant in await ledger.tenants()]
    await ledger.close()
    if not all(report.ok for report in reports):
        raise SystemExit(f"the audit failed: {reports}")


async def measured(options: argparse.Namespace) -> None:
    parts = {"throughput": partial(throughput, seconds=options.seconds, rounds=options.rounds), "memory": memory}
    for name in options.parts:
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            await parts[name](Path(directory), options.redis_server)


def main() -> None:
    parts = ["throughput", "memory"]
    uvloop.run(measured(arguments(__doc__, parts=parts, seconds=3.0, rounds=3, directory=Path, redis_server=Path)))


if __name__ == "__main__":
    main()

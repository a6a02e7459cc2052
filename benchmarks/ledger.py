"""Latency of reserve + commit on the embedded Redis with `appendfsync always`.

    python benchmarks/ledger.py [--seconds 5] [--directory PATH] [--redis-server PATH]

Each client reserves (two accounts, an idempotency key) and commits (a 4 KiB response) in a closed loop. Each step
waits for one fdatasync, so the table starts with what one costs alone; a `--directory` in memory, such as
/dev/shm, shows the ledger's own share.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import EPSILON_MAX, NANO
from core.errors import Amount
from core.ledger.client import LedgerClient, connect
from core.ledger.embedded import attached
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger
from core.ledger.records import Charge

CLIENTS = (1, 32)
RESPONSE = bytes(4096)
EVENT = PrivacyEvent(
    mechanism="benchmark",
    kind="exponential",
    unit=Unit.SENTENCE,
    adjacency=Adjacency.REPLACE_ONE,
    guarantee=Guarantee.PURE_DP,
    epsilon_nano=1,
)


async def measure(ledger: Ledger, key: MasterKey, *, clients: int, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of every reserve, commit and pair."""
    times: dict[str, list[float]] = {"reserve": [], "commit": [], "both": []}
    until = time.perf_counter() + seconds

    async def client(number: int) -> None:
        count = 0
        while time.perf_counter() < until:
            count += 1
            claim = key.claim(tenant="bench", route="/bench", key=f"{clients}-{number}-{count}", body=b"{}")
            start = time.perf_counter()
            hold = await ledger.reserve("bench", [Charge(EVENT)], claim=claim)
            middle = time.perf_counter()
            await ledger.commit("bench", hold.release_id, response=RESPONSE)
            end = time.perf_counter()
            times["reserve"].append((middle - start) * 1000)
            times["commit"].append((end - middle) * 1000)
            times["both"].append((end - start) * 1000)

    await asyncio.gather(*(client(number) for number in range(clients)))
    return times


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


def line(clients: int, step: str, times: list[float], rate: str = "") -> str:
    cuts = statistics.quantiles(times, n=20)
    return f"{clients:>7}  {step:<9} {cuts[9]:8.2f} {cuts[18]:8.2f} {rate:>11}"


async def main(seconds: float, parent: Path | None, redis_server: Path | None) -> None:
    key = MasterKey(bytes(32))
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        async with attached(Path(directory), redis_server=redis_server) as socket:
            ledger = Ledger(LedgerClient(connect(socket_path=socket)), key)
            await ledger.check()
            await ledger.open_tenant("bench", limits={unit: Amount(EPSILON_MAX * NANO) for unit in Unit})
            print(f"{'clients':>7}  {'step':<9} {'p50 ms':>8} {'p95 ms':>8} {'releases/s':>11}")
            print(line(1, "fdatasync", fdatasync_times(Path(directory))))
            for clients in CLIENTS:
                times = await measure(ledger, key, clients=clients, seconds=seconds)
                for step, values in times.items():
                    print(line(clients, step, values, f"{len(values) / seconds:.0f}" if step == "both" else ""))
            report = await ledger.audit()
            await ledger.close()
            if not report.ok:
                raise SystemExit(f"the audit failed: {report}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--redis-server", type=Path)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.seconds, arguments.directory, arguments.redis_server))

"""What idle tenants cost Redis: N gateways on one ledger, and nobody asks for anything.

    python -m benchmarks.idle_load [--tenants 5000] [--gateways 4] [--seconds 120]

Each tenant has made one release. Prints the commands a second that Redis ran, those inside scripts included, and the
share of a processor that Redis used.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.accounting.events import ACCOUNT_ADJACENCY, Guarantee, PrivacyEvent, Unit
from core.amounts import NANO
from core.ledger.client import LedgerClient, connect
from core.ledger.embedded import EmbeddedRedis
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger
from core.ledger.records import Charge, Limit
from core.ledger.tenant_rounds import over_tenants

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kits"))
from gateway_kit import LEAN, Gateway

KEY = bytes(range(32))
WARM_S = 30.0


async def _open(client: LedgerClient, tenants: int) -> None:
    ledger = Ledger(client, MasterKey(KEY))
    limits = {unit: Limit(10 * NANO, 0, None) for unit in Unit}
    event = PrivacyEvent(
        mechanism="idle",
        kind="pure",
        unit=Unit.SENTENCE,
        adjacency=ACCOUNT_ADJACENCY[Unit.SENTENCE],
        guarantee=Guarantee.PURE_DP,
        epsilon_nano=NANO,
        delta_femto=0,
    )

    async def one(tenant: str) -> int:
        await ledger.open_tenant(tenant, limits=limits)
        hold = await ledger.reserve(tenant, [Charge(event)])
        await ledger.commit(tenant, hold.release_id)
        return 1

    await ledger.check()
    await over_tenants((f"tenant-{number:05d}" for number in range(tenants)), one, at_once=64)


@contextmanager
def _gateways(number: int, folder: Path, url: str) -> Iterator[None]:
    settings = LEAN | {"REDIS_URL": url, "PRIVACY_GATEWAY_MASTER_KEY": KEY.hex()}
    running: list[Gateway] = []
    try:
        for each in range(number):
            running.append(Gateway(folder / f"gateway-{each}", settings))
        yield
    finally:
        for gateway in running:
            gateway.stop()


async def run(tenants: int, gateways: int, seconds: float, folder: Path) -> None:
    server = EmbeddedRedis(folder / "redis")
    await server.start()
    client = LedgerClient(connect(socket_path=server.socket))
    try:
        began = time.perf_counter()
        await _open(client, tenants)
        print(f"{tenants} tenants opened in {time.perf_counter() - began:.0f} s", flush=True)

        async def figures() -> tuple[float, int, float, dict[str, int]]:
            stats, cpu = await client.call("INFO", "stats"), await client.call("INFO", "cpu")
            each = await client.call("INFO", "commandstats")
            calls = {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in each.items()}
            used = float(cpu["used_cpu_sys"]) + float(cpu["used_cpu_user"])
            return time.perf_counter(), int(stats["total_commands_processed"]), used, calls

        with _gateways(gateways, folder, f"unix://{server.socket}"):
            await asyncio.sleep(WARM_S)
            before: Any = await figures()
            await asyncio.sleep(seconds)
            after: Any = await figures()
        wall = after[0] - before[0]
        print(f"commands a second: {(after[1] - before[1]) / wall:.1f}")
        print(f"processor of Redis: {(after[2] - before[2]) / wall * 100:.2f} %")
        rates = {name: (count - before[3].get(name, 0)) / wall for name, count in after[3].items()}
        for name, rate in sorted(rates.items(), key=lambda row: -row[1]):
            if rate > 0.05:
                print(f"  {name:<18}{rate:>8.2f} /s")
    finally:
        await client.close()
        await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", type=int, default=5000)
    parser.add_argument("--gateways", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=120)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idle-") as folder:
        asyncio.run(run(given.tenants, given.gateways, given.seconds, Path(folder)))


if __name__ == "__main__":
    main()

"""What a round of alerts costs one gateway: 1,000 tenants with three rules each, on an embedded Redis.

    python -m benchmarks.alerts [--tenants 1000]

Each tenant has rules on the share of its budget, on epsilon spent without an output, and on unusual spending, and has
made a release. Prints wall time and processor time of a round in ms, and the commands that it sends to Redis.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from core.accounting.events import ACCOUNT_ADJACENCY, Guarantee, PrivacyEvent, Unit
from core.amounts import NANO
from core.ledger.alerts import AlertStore
from core.ledger.client import LedgerClient, connect
from core.ledger.embedded import EmbeddedRedis
from core.ledger.jobs import JobStore
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger
from core.ledger.records import Charge, Limit
from core.ledger.series import LedgerSeries
from core.ledger.spending_totals import SpendingTotals
from service.alerts.book import RuleBook
from service.alerts.evaluation import Evaluator
from service.alerts.view import Sources

RULES: tuple[dict[str, Any], ...] = (
    {"kind": "budget_used", "share": 0.8},
    {"kind": "spent_without_output"},
    {"kind": "unusual_spending"},
)
HOLDER = "benchmark"


async def measured(client: LedgerClient, name: str, work: Callable[[], Awaitable[int]]) -> None:
    async def commands() -> int:
        return int((await client.call("INFO", "stats"))["total_commands_processed"])

    before, wall, cpu = await commands(), time.perf_counter(), time.process_time()
    looked = await work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    sent = await commands() - before - 1
    print(
        f"{name:<32}{looked:>6} rules {wall * 1000:>9.1f} ms {cpu * 1000:>8.1f} ms CPU {sent:>7} commands", flush=True
    )


async def run(tenants: int, folder: Path) -> None:
    server = EmbeddedRedis(folder)
    await server.start()
    client, master_key = LedgerClient(connect(socket_path=server.socket)), MasterKey(bytes(32))
    ledger, store = Ledger(client, master_key), AlertStore(client, master_key)
    series, spending = LedgerSeries(client), SpendingTotals(client)
    sources = Sources(
        ledger,
        series,
        spending,
        JobStore(client, gateway="g"),
        seal_age_s=lambda: 0.0,
        forecasts_max=20,
    )
    names = [f"tenant-{number}" for number in range(tenants)]

    async def spend(name: str) -> None:
        event = PrivacyEvent(
            "benchmark", "pure", Unit.SENTENCE, ACCOUNT_ADJACENCY[Unit.SENTENCE], Guarantee.PURE_DP, NANO
        )
        hold = await ledger.reserve(name, [Charge(event)])
        await ledger.commit(name, hold.release_id)

    for name in names:
        await ledger.open_tenant(name, limits={unit: Limit(100 * NANO, 10**9) for unit in Unit})
        await spend(name)
        for rule in RULES:
            content = {"when": rule, "url": None, "secret": None, "tenants": None}
            await store.put_rule(name, rule["kind"].replace("_", "-"), content)
    await series.fold_all()
    await spending.fold_all()
    await store.take_lease(HOLDER, ttl_ms=10**9)
    book = RuleBook(store)
    evaluator = Evaluator(store, book, sources, holder=HOLDER)

    async def whole_round() -> int:
        await book.refresh()
        return await evaluator.round()

    await measured(client, "first round after a start", whole_round)
    await measured(client, "nothing has changed", whole_round)
    for name in names[: tenants // 10]:
        await spend(name)
    await series.fold_all()
    await spending.fold_all()
    await measured(client, "one tenant in ten has spent", whole_round)
    await client.close()
    await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", type=int, default=1000)
    with tempfile.TemporaryDirectory(prefix="alerts-") as folder:
        asyncio.run(run(parser.parse_args().tenants, Path(folder)))


if __name__ == "__main__":
    main()

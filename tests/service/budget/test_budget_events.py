"""Events of a budget: one reader for all who wait, and the stream over HTTP."""

import asyncio
import json
from collections.abc import Sequence

from alert_kit import until
from exchange_kit import Exchange
from gateway_kit import Tenant
from inprocess_kit import Gateway

from core.errors import LedgerUnavailable
from service.budget.events import BudgetWatch


def test_waiting_goes_on_when_redis_is_back() -> None:
    reads = 0

    async def numbers(tenants: Sequence[str]) -> dict[str, int]:
        nonlocal reads
        reads += 1
        if reads < 3:
            raise LedgerUnavailable("Redis cannot be reached.")
        return dict.fromkeys(tenants, 0)

    assert asyncio.run(BudgetWatch(numbers, interval_s=0.01).changed("a", None)) == 0
    assert reads == 3


def test_a_release_is_an_event(gateway: Gateway, tenant: Tenant) -> None:
    async def opened() -> Exchange:
        return await Exchange(gateway, tenant.key, "GET", "/budget/events").begun()

    async def left() -> None:
        exchange.leave()
        await exchange.ended()

    def numbers() -> list[int]:
        sent = b"".join(message.get("body", b"") for message in exchange.messages).decode()
        lines = [line.removeprefix("data: ") for line in sent.splitlines() if line.startswith("data: ")]
        return [json.loads(line)["last_entry"] for line in lines]

    exchange = gateway.on_loop(opened())
    assert gateway.tenant().embed().status_code == 200  # of another tenant, so it is no event
    assert tenant.embed().status_code == 200
    first, second = until(lambda: len({*numbers()}) > 1 and sorted({*numbers()})[:2])
    gateway.on_loop(left())
    entries = tenant.http.get(f"/budget/{tenant.name}/sentence/journal").json()["entries"]
    assert first < second <= entries[-1]["seq"]

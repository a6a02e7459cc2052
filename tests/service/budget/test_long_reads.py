"""Long answers about the ledger are made one at a time, so that no tenant crowds out the event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway

from core.ledger.journal_pages import JournalEntries
from service.budget import endpoints, journal, spending
from service.releases import budget_blocks

READS = 6


@pytest.mark.parametrize(
    ("module", "name", "path"),
    [
        (JournalEntries, "_parsed", "/sentence/journal"),
        (journal, "_page_text", "/sentence/journal"),
        (journal, "_written_rows", "/sentence/journal/export"),
        (endpoints, "series_block", "series"),
        (spending, "_series_row", "/sentence/spending"),
        (budget_blocks, "block_with_history", ""),
    ],
)
def test_one_is_made_at_a_time_and_not_on_the_loop(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, path: str
) -> None:
    tenants = [gateway.tenant() for _ in range(2)]
    for tenant in tenants:
        assert tenant.embed().status_code == 200
        if path.endswith("spending"):
            _wait_for_rows(tenant)
    made: Callable[..., Any] = getattr(module, name)
    working = threading.Lock()
    seen: list[tuple[bool, str]] = []

    def slow(*arguments: Any, **named: Any) -> Any:
        alone = working.acquire(blocking=False)
        time.sleep(0.02)
        seen.append((alone, threading.current_thread().name))
        if alone:
            working.release()
        return made(*arguments, **named)

    monkeypatch.setattr(module, name, slow)

    def read(tenant: Tenant) -> int:
        query = path if path in ("", "series") else f"{tenant.name}{path}"
        return gateway.client(tenant.key).get(f"/budget/{query}".rstrip("/")).status_code

    with ThreadPoolExecutor(READS) as pool:
        statuses = list(pool.map(read, tenants * (READS // 2)))

    loop = gateway.on_loop(_thread_name())
    assert statuses == [200] * READS
    assert seen
    assert all(alone for alone, _ in seen)
    assert loop not in {thread for _, thread in seen}


def _wait_for_rows(tenant: Tenant) -> None:
    """Until the journal is folded."""
    deadline = time.monotonic() + 120
    while not tenant.http.get(f"/budget/{tenant.name}/sentence/spending").json()["rows"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def _thread_name() -> str:
    return threading.current_thread().name

"""One real redis-server a module; every test starts with an empty ledger and ends with an audit of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from ledger_kit import MASTER_KEY

from core.ledger.client import LedgerClient, connect
from core.ledger.embedded import EmbeddedRedis
from core.ledger.ledger import Ledger


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def go(runner: asyncio.Runner) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on the module's event loop."""
    return runner.run


@pytest.fixture(scope="module")
def server(go, tmp_path_factory) -> Iterator[EmbeddedRedis]:
    server = EmbeddedRedis(tmp_path_factory.mktemp("ledger"))
    go(server.start())
    yield server
    go(server.stop())


@pytest.fixture
def client(go, server) -> Iterator[LedgerClient]:
    client = LedgerClient(connect(socket_path=server.socket))
    go(client.call("FLUSHALL"))
    yield client
    go(client.close())


@pytest.fixture
def ledger(go, client) -> Iterator[Ledger]:
    """The invariant of every test: the journal's sum equals the counters, without a gap."""
    ledger = Ledger(client, MASTER_KEY)
    yield ledger
    report = go(ledger.audit())
    assert report.ok, report

"""Two real redis-servers. Each test runs on both, on the second as a slow test, and ends with an audit of its ledger.

`embedded-socket` is the bundled server as the gateway embeds it. `debian-tcp` is an installed one by the files in
deploy/: the ledger is its user `gateway`, over TCP with a password, so each test also shows that the rights suffice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY
from redis_kit import DeployedServer, EmbeddedServer, RedisProcess, installed_server

from core.ledger.client import LedgerClient, connect
from core.ledger.ledger import Ledger

# Waits of the tests that name no timeout: a process that stops for some seconds is no outage.
assert connect.__kwdefaults__ is not None
connect.__kwdefaults__["timeout_s"] = 60.0

SERVERS = [
    pytest.param(EmbeddedServer, id="embedded-socket"),
    pytest.param(DeployedServer, id="debian-tcp", marks=pytest.mark.slow("installation")),
]


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def go(runner: asyncio.Runner) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on the module's event loop."""
    return runner.run


@pytest.fixture(scope="module", params=SERVERS)
def server(request, tmp_path_factory) -> Iterator[RedisProcess]:
    if request.param is DeployedServer and installed_server() is None:
        pytest.skip("no redis-server of version 7 or later is installed")
    server = request.param(tmp_path_factory.mktemp("ledger"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def admin(go, server) -> Iterator[LedgerClient]:
    """The operator's connection: for what a test does to the server, and no ledger may."""
    admin = LedgerClient(connect(url=server.admin_url))
    yield admin
    go(admin.close())


@pytest.fixture
def client(go, server, admin) -> Iterator[LedgerClient]:
    """The ledger's connection, with the ledger's rights."""
    go(admin.call("FLUSHALL"))
    client = LedgerClient(connect(url=server.url))
    yield client
    go(client.close())


@pytest.fixture
def ledger(go, client) -> Iterator[Ledger]:
    """The invariant of every test: the journal's sum equals the counters, without a gap."""
    ledger = Ledger(client, MASTER_KEY)
    yield ledger
    report = go(audit(ledger))
    assert report.ok, report

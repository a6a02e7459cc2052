"""A real redis-server: the bundled one, with the users of deploy/users.acl. Each test ends with an audit of its ledger.

The ledger is the user `gateway`, so that each test also shows that the rights of this user suffice. Tests that need an
installed Redis by the files in deploy/ ask for `DeployedServer` by an indirect parameter.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY, FaultyRedis, limits
from redis_kit import DeployedServer, GuardedServer, RedisProcess, installed_server

from core.ledger.transitions import Ledger
from core.redis.client import LedgerClient, connect

# Waits of the tests that name no timeout: a process that stops for some seconds is no outage.
assert connect.__kwdefaults__ is not None
connect.__kwdefaults__["timeout_s"] = 60.0


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def go(runner: asyncio.Runner) -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on the module's event loop."""
    return runner.run


@pytest.fixture(scope="module")
def server(request, tmp_path_factory) -> Iterator[RedisProcess]:
    kind = getattr(request, "param", GuardedServer)
    if kind is DeployedServer and installed_server() is None:
        pytest.skip("no redis-server of version 7 or later is installed")
    server = kind(tmp_path_factory.mktemp("ledger"))
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


@pytest.fixture
def acme(go, ledger) -> Ledger:
    """The ledger with a tenant of this name, who may spend an epsilon of 5 on each account."""
    go(ledger.open_tenant("acme", limits=limits(5)))
    return ledger


@pytest.fixture
def faulty(go, server, ledger, tmp_path) -> Iterator[FaultyRedis]:
    """The server behind a connection that fails as the test plans."""
    redis = FaultyRedis(server.url, tmp_path / "faulty.sock")
    go(redis.__aenter__())
    yield redis
    go(redis.client.close())
    go(redis.__aexit__())

"""A tenant that is in use on two ledgers, after an older copy of one was accepted: one copy is retired."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_kit import Finished, run_command
from gateway_kit import Tenant
from inprocess_kit import Gateway
from redis_kit import EmbeddedServer
from several_ledgers_kit import BODY, settings

from core.ledger import names
from core.ledger.client import LedgerClient, connect
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger
from core.ledger.records import Charge
from core.mechanisms.sentences.pricing import sentence_event

MASTER_KEY = MasterKey(bytes.fromhex("11" * 32))
Command = Callable[..., Finished]


def transition(server: EmbeddedServer, end: str = "", release_id: str = "") -> str:
    """Reserve the cost of a release of the tenant on a ledger, or end it."""

    async def run() -> str:
        client = LedgerClient(connect(url=server.url))
        ledger = Ledger(client, MASTER_KEY)
        try:
            if not end:
                return (await ledger.reserve("twice", [Charge(sentence_event("clipped_cosine", 1.0), None)])).release_id
            await getattr(ledger, end)("twice", release_id, **({} if end == "commit" else {"reason": "test"}))
            return release_id
        finally:
            await client.close()

    return asyncio.run(run())


@pytest.fixture
def environment(servers: tuple[EmbeddedServer, EmbeddedServer]) -> dict[str, str]:
    return settings(servers[0], east=servers[1])


@pytest.fixture
def command(environment: dict[str, str], tmp_path: Path) -> Command:
    def run(*arguments: str) -> Finished:
        return run_command(tmp_path / "data", "ledger", *arguments, environment=environment)

    return run


@pytest.fixture
def tenant(
    servers: tuple[EmbeddedServer, EmbeddedServer], environment: dict[str, str], tmp_path: Path, command: Command
) -> Iterator[Tenant]:
    """A tenant that has moved from `main` to `east`, and was in use there, when an older copy of `main` was accepted.

    It has spent 1 before the copy was made, and 1 afterwards. A hold that was open in the copy was refunded.
    """
    main, _ = servers
    gateway = Gateway(tmp_path / "data", environment)
    made = gateway.tenant("twice", epsilon=10, ledger="main")
    assert made.http.post("/embed/sentdp", json=BODY).status_code == 200
    gateway.stop()
    held = transition(main)
    main.stop()
    shutil.copytree(main.folder, tmp_path / "copy")
    main.start()
    transition(main, "cancel", held)
    moved = command("move", "twice", "--to", "east")
    assert moved.returncode == 0, moved.stderr
    gateway = Gateway(tmp_path / "data", environment)
    assert gateway.reconnected(made).http.post("/embed/sentdp", json=BODY).status_code == 200
    gateway.stop()

    main.stop()
    shutil.rmtree(main.folder)
    shutil.copytree(tmp_path / "copy", main.folder)
    main.start()
    accepted = command("accept-restore", "--nothing-was-released-since")
    assert accepted.returncode == 0, accepted.stderr
    busy = command("retire", "twice", "--at", "main", "--wait-s", "0")
    assert "1 open holds" in busy.stderr
    transition(main, "expire", held)  # as a gateway does after a while
    return made


def assert_served(environment: dict[str, str], tenant: Tenant, tmp_path: Path, *, committed: float) -> None:
    gateway = Gateway(tmp_path / "data", environment)
    try:
        again = gateway.reconnected(tenant)
        assert again.committed() == committed
        assert again.http.post("/embed/sentdp", json=BODY).status_code == 200
        assert again.committed() == committed + 1
    finally:
        gateway.stop()


def assert_refused(environment: dict[str, str], tenant: Tenant, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data", environment)
    try:
        answer = gateway.reconnected(tenant).http.post("/embed/sentdp", json=BODY)
        assert (answer.status_code, answer.json()["code"]) == (503, "ledger-unavailable")
    finally:
        gateway.stop()


def test_the_copy_that_lacks_spending_is_retired_and_no_other(
    servers: tuple[EmbeddedServer, EmbeddedServer],
    environment: dict[str, str],
    tenant: Tenant,
    tmp_path: Path,
    command: Command,
) -> None:
    main, east = servers
    assert_refused(environment, tenant, tmp_path)
    wrong = command("retire", "twice", "--at", "east")
    assert wrong.returncode == 1
    assert "may have charged something" in wrong.stderr
    assert not east.admin().hmget(names.tenant_key("twice"), "closing", "away")[0], "it is as it was"
    assert "no ledger west" in command("retire", "twice", "--at", "west").stderr
    assert command("retire", "nobody", "--at", "main").returncode == 1

    retired = command("retire", "twice", "--at", "main")
    assert retired.returncode == 0, retired.stderr
    assert command("homes").stdout == "twice\teast\n"
    assert not list(main.admin().scan_iter("{twice}:claim:*"))
    audit = command("audit")
    assert audit.returncode == 0, audit.stdout
    assert command("retire", "twice", "--at", "main").returncode == 0, "a run that is repeated changes nothing"
    last = command("retire", "twice", "--at", "east")
    assert "in use on 0 ledgers beside east" in last.stderr
    assert_served(environment, tenant, tmp_path, committed=2)
    assert command("audit").returncode == 0


def test_a_copy_that_has_charged_since_is_not_retired(
    servers: tuple[EmbeddedServer, EmbeddedServer],
    environment: dict[str, str],
    tenant: Tenant,
    tmp_path: Path,
    command: Command,
) -> None:
    release_id = transition(servers[0])
    transition(servers[0], "commit", release_id)
    refused = command("retire", "twice", "--at", "main")
    assert refused.returncode == 1
    assert "may have charged something" in refused.stderr
    assert servers[0].admin().hmget(names.tenant_key("twice"), "closing", "away") == [None, None]
    assert_refused(environment, tenant, tmp_path)

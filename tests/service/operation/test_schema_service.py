"""The schema of a ledger as an operator meets it: commands and gateways refuse, `ledger migrate` helps."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from command_kit import Finished, run_command
from gateway_kit import refused_start
from inprocess_kit import Gateway
from redis_kit import EmbeddedServer

from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.client import LedgerClient, connect
from core.ledger.migration import SCHEMA
from core.ledger.presence import Presence, Presences
from service.operation.presence import GatewayPresence


class Deployment:
    """A Redis of its own, and commands on it."""

    def __init__(self, server: EmbeddedServer, data_dir: Path) -> None:
        self.server = server
        self.data_dir = data_dir
        self.environment = {"REDIS_URL": server.url, "PRIVACY_GATEWAY_MASTER_KEY": "22" * 32}

    def command(self, *arguments: str) -> Finished:
        return run_command(self.data_dir, *arguments, environment=self.environment)

    def set_version(self, text: str) -> None:
        self.server.admin().set(names.VERSION_KEY, text)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    folder = tmp_path / "redis"
    folder.mkdir()
    server = EmbeddedServer(folder)
    server.start()
    yield Deployment(server, tmp_path / "data")
    server.stop()


def test_commands_refuse_another_schema_until_the_ledger_is_migrated(deployment: Deployment) -> None:
    assert deployment.command("tenant", "create", "acme", "--epsilon", "5").returncode == 0
    assert deployment.server.admin().get(names.VERSION_KEY) == str(SCHEMA.number).encode()
    assert deployment.command("ledger", "gateways").stdout == ""

    deployment.set_version("1")
    refused = deployment.command("tenant", "list")
    assert (refused.returncode, "ledger migrate" in refused.stderr) == (1, True)
    done = deployment.command("ledger", "migrate")
    assert done.stdout == f"schema {SCHEMA.number}; 0 records changed\n"
    assert deployment.command("tenant", "list").returncode == 0
    assert deployment.command("ledger", "migrate").returncode == 0

    deployment.set_version("99")
    for command in (("tenant", "list"), ("ledger", "migrate"), ("ledger", "seal")):
        refused = deployment.command(*command)
        assert (refused.returncode, "newer version" in refused.stderr) == (1, True)
    assert "newer version" in refused_start(deployment.data_dir, deployment.environment)


def test_a_migration_is_refused_while_a_gateway_of_another_schema_is_present(deployment: Deployment) -> None:
    async def with_presences(work: str) -> None:
        client = LedgerClient(connect(url=deployment.server.url))
        presence = Presence("old", "machine-7", "0.0", SCHEMA.number - 1)
        if work == "beat":
            await Presences(client).beat(presence, ttl_ms=600_000)
        else:
            await Presences(client).leave("old")
        await client.close()

    assert deployment.command("tenant", "create", "acme", "--epsilon", "5").returncode == 0
    deployment.set_version("1")
    asyncio.run(with_presences("beat"))
    refused = deployment.command("ledger", "migrate")
    assert (refused.returncode, "machine-7" in refused.stderr) == (1, True)
    assert deployment.server.admin().get(names.VERSION_KEY) == b"1"
    assert "machine-7" in deployment.command("ledger", "gateways").stdout
    asyncio.run(with_presences("leave"))
    assert deployment.command("ledger", "migrate").returncode == 0


async def ping_forever(client: LedgerClient) -> None:
    while True:
        await client.call("PING")
        await asyncio.sleep(0.01)


def test_a_gateway_that_finds_another_schema_stops_using_the_ledger(deployment: Deployment) -> None:
    """As one that was paused while the ledger was migrated."""

    async def scenario() -> None:
        client = LedgerClient(connect(url=deployment.server.url))
        presence = GatewayPresence(client, "paused", ttl_s=0.05)
        await presence.begin()
        deployment.set_version("99")
        renewing = asyncio.create_task(presence.renew_regularly())
        with pytest.raises(LedgerUnavailable, match="newer version"):
            await asyncio.wait_for(ping_forever(client), 300)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await client.close()

    asyncio.run(scenario())


def test_the_gateways_that_are_present_are_listed(gateway: Gateway) -> None:
    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(run_command(gateway.data_dir, "ledger", "gateways", "--json").stdout)
        return found

    deadline = time.monotonic() + 120
    while not any(row["duties"] for row in listed()):  # a process that waits long for its turn loses its lease
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (row,) = listed()
    assert (row["version"], row["schema"]) == (version("privacy-gateway"), SCHEMA.number)
    (line,) = run_command(gateway.data_dir, "ledger", "gateways").stdout.splitlines()
    assert line.startswith(row["id"])

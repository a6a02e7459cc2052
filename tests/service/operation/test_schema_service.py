"""The schema of a ledger and its gateways as an operator meets them."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from alert_kit import until
from command_kit import run_command
from gateway_kit import refused_start
from inprocess_kit import Gateway
from redis_kit import running_server

from core.redis import names


@pytest.mark.usefixtures("processes")
def test_commands_and_gateways_refuse_another_schema(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with running_server(tmp_path / "redis") as server:
        environment = {"REDIS_URL": server.url, "PRIVACY_GATEWAY_MASTER_KEY": "22" * 32}
        created = run_command(data_dir, "tenant", "create", "acme", "--epsilon", "5", environment=environment)
        assert created.returncode == 0
        server.admin().set(names.VERSION_KEY, "99")
        for command in (("tenant", "list"), ("ledger", "seal"), ("ledger", "audit")):
            refused = run_command(data_dir, *command, environment=environment)
            assert (refused.returncode, "has the schema 99" in refused.stderr) == (1, True)
        assert "has the schema 99" in refused_start(data_dir, environment)


def test_the_gateways_that_are_present_are_listed(gateway: Gateway) -> None:
    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(run_command(gateway.data_dir, "ledger", "gateways", "--json").stdout)
        return found

    until(lambda: any(row["duties"] for row in listed()))  # a process that waits long for its turn loses its lease
    (row,) = listed()
    assert row["version"] == version("privacy-gateway")
    (line,) = run_command(gateway.data_dir, "ledger", "gateways").stdout.splitlines()
    assert line.startswith(row["id"])

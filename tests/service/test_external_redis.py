"""A Redis of one's own by `REDIS_URL`, as the files in deploy/ start it, and one with a wrong setting."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_kit import LEAN, refused_start
from inprocess_kit import Gateway
from redis_kit import DeployedServer, installed_server

pytestmark = pytest.mark.skipif(installed_server() is None, reason="no redis-server of version 7 or later is installed")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DeployedServer]:
    folder = tmp_path / "redis"
    folder.mkdir()
    server = DeployedServer(folder)
    yield server
    server.stop()


@pytest.mark.usefixtures("processes")
def test_a_server_that_could_lose_a_hold_is_refused(server: DeployedServer, tmp_path: Path) -> None:
    server.start("--appendfsync", "everysec")
    assert "appendfsync" in refused_start(tmp_path / "data", {"REDIS_URL": server.url})


@pytest.mark.usefixtures("processes")
def test_a_gateway_serves_with_the_rights_of_its_user(server: DeployedServer, tmp_path: Path) -> None:
    server.start()
    gateway = Gateway(tmp_path / "data", LEAN | {"REDIS_URL": server.url})
    try:
        tenant = gateway.tenant(epsilon=2)
        assert [tenant.embed(epsilon=1).status_code for _ in range(3)] == [200, 200, 403]
        assert tenant.committed() == 2.0
        assert not (gateway.data_dir / "redis").exists(), "no second ledger beside the configured one"
        assert "data directory" in refused_start(gateway.data_dir, {"REDIS_URL": server.url}), "it has one gateway"
    finally:
        gateway.stop()

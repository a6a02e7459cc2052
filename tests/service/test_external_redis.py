"""A Redis of one's own by `REDIS_URL`: an installed server by the files in deploy/, and one with a wrong setting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_kit import Gateway, refused_start
from redis_kit import DeployedServer, installed_server

pytestmark = pytest.mark.skipif(installed_server() is None, reason="no redis-server of version 7 or later is installed")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DeployedServer]:
    folder = tmp_path / "redis"
    folder.mkdir()
    server = DeployedServer(folder)
    yield server
    server.stop()


def test_the_gateway_serves_on_a_redis_of_ones_own(server: DeployedServer, tmp_path: Path) -> None:
    """With the rights of users.acl and nothing else."""
    server.start()
    gateway = Gateway(tmp_path / "data", {"REDIS_URL": server.url})
    try:
        tenant = gateway.tenant(epsilon=2)
        assert [tenant.embed(epsilon=1).status_code for _ in range(3)] == [200, 200, 403]
        assert tenant.committed() == 2.0
        assert not (gateway.data_dir / "redis").exists(), "no second ledger beside the configured one"
    finally:
        gateway.stop()


def test_a_server_that_could_lose_a_hold_is_refused(server: DeployedServer, tmp_path: Path) -> None:
    server.start("--appendfsync", "everysec")
    assert "appendfsync" in refused_start(tmp_path / "data", {"REDIS_URL": server.url})

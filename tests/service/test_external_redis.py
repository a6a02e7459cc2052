"""A Redis of one's own by `REDIS_URL` with a wrong setting; `test_outages` has the one by the files in deploy/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_kit import refused_start
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

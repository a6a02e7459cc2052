"""A gateway on two ledgers, for the tests of several ledgers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from inprocess_kit import Gateway
from redis_kit import EmbeddedServer
from several_ledgers_kit import settings


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    made = []
    for name in ("main", "east"):
        folder = tmp_path / name
        folder.mkdir()
        made.append(EmbeddedServer(folder))
        made[-1].start()
    yield made[0], made[1]
    for server in made:
        server.stop()


@pytest.fixture
def gateway(servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "data", settings(servers[0], east=servers[1]))
    yield gateway
    gateway.stop()

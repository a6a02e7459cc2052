"""Two ledgers, `main` and `east`, on two Redis servers of the kind that `server` has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from move_kit import Mover, Site
from redis_kit import RedisProcess

from core.ledger.migration import SCHEMA


def another(server: RedisProcess, folder: Path) -> Iterator[RedisProcess]:
    other = type(server)(folder)
    other.start()
    yield other
    other.stop()


@pytest.fixture(scope="module")
def other_server(server, tmp_path_factory) -> Iterator[RedisProcess]:
    yield from another(server, tmp_path_factory.mktemp("other"))


@pytest.fixture
def third_server(server, tmp_path_factory) -> Iterator[RedisProcess]:
    yield from another(server, tmp_path_factory.mktemp("third"))


@pytest.fixture
def sites(go, server, other_server, tmp_path) -> Iterator[tuple[Site, Site]]:
    """Empty ledgers."""
    found = tuple(
        Site(name, each.url, each.admin_url, tmp_path / name)
        for name, each in (("main", server), ("east", other_server))
    )
    for site in found:
        go(site.admin.call("FLUSHALL"))
        go(SCHEMA.begin(site.admin))
        go(site.shelf.start())
    yield found
    for site in found:
        go(site.close())


@pytest.fixture
def mover(sites) -> Mover:
    return Mover(sites[0])

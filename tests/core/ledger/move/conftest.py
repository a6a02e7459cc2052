"""Two ledgers, `main` and `east`, on two Redis servers of the kind that `server` has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from move_kit import Mover, Site
from redis_kit import RedisProcess

from core.ledger.migration import SCHEMA


@pytest.fixture(scope="module")
def other_server(server, tmp_path_factory) -> Iterator[RedisProcess]:
    other = type(server)(tmp_path_factory.mktemp("other"))
    other.start()
    yield other
    other.stop()


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

"""The client of several ledgers: what is sent where, and what goes on while one of them is away."""

from __future__ import annotations

import pytest
from ledger_kit import MASTER_KEY
from redis_kit import EmbeddedServer

from core.accounting.events import Unit
from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.client import LedgerClient, OneLedgerUnavailable, connect
from core.ledger.homes import HomeMap
from core.ledger.job_owners import JobOwners
from core.ledger.ledger import Ledger
from core.ledger.records import Limit
from core.ledger.routed import RoutedClient

LIMITS = {unit: Limit(10**9, 0, None) for unit in Unit}


@pytest.fixture(scope="module")
def east(tmp_path_factory):
    server = EmbeddedServer(tmp_path_factory.mktemp("east"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def routed(go, client, east):
    other = LedgerClient(connect(url=east.url))
    go(other.call("FLUSHALL"))
    homes = HomeMap(client, ["east"])
    found = RoutedClient(client, {"east": other}, homes)
    found.opened = homes.opened
    yield found
    go(other.close())


def test_a_ledger_is_used_once_it_is_open(go, routed, ledger) -> None:
    both = Ledger(routed, MASTER_KEY)
    for name, ledger in (("near", "main"), ("far", "east")):
        with pytest.raises(OneLedgerUnavailable, match="been opened"):
            go(both.open_tenant(name, limits=LIMITS, ledger=ledger))
    assert go(both.tenants()) == ()
    routed.opened("east")
    go(both.open_tenant("near", limits=LIMITS, ledger="main"))
    go(both.open_tenant("far", limits=LIMITS, ledger="east"))
    assert [one.name for one in go(both.tenants())] == ["far", "near"]
    main, other = routed.each()
    assert (go(main.tenants()), go(other.tenants())) == (["near"], ["far"])
    assert go(main.call("EXISTS", names.tenant_key("far"))) == 0
    assert go(other.call("EXISTS", names.tenant_key("near"))) == 0
    assert go(routed.at("far")) is other


def test_work_for_all_tenants_continues_without_a_ledger_that_is_away(go, routed, ledger, east) -> None:
    routed.opened("east")
    both = Ledger(routed, MASTER_KEY)
    go(both.open_tenant("near", limits=LIMITS, ledger="main"))
    go(both.open_tenant("far", limits=LIMITS, ledger="east"))
    for tenant in ("near", "far"):
        go(routed.call("ZADD", names.open_jobs_key(tenant), 1, "0" * 32))
    owners = JobOwners(routed)
    go(owners.refresh(all_tenants=True))
    assert go(owners.listed()) == ["far", "near"]
    east.kill()
    try:
        assert go(both.last_numbers(["near", "far"])) == {"near": 1}
        assert go(routed.tenants(partial=True)) == ["near"]
        go(owners.refresh())
        assert go(owners.listed()) == ["far", "near"]  # its unfinished job is not forgotten
        for work in (both.tenants(), both.tenant("far"), routed.call_many([("TIME",), ("HGETALL", "{far}:tenant")])):
            with pytest.raises(LedgerUnavailable):
                go(work)
        assert go(both.tenant("near")).name == "near"
        with pytest.raises(OneLedgerUnavailable):
            go(both.open_tenant("further", limits=LIMITS, ledger="east"))
        go(both.open_tenant("further", limits=LIMITS, ledger="main"))  # no other home was recorded
    finally:
        east.start()

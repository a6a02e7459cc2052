"""The ledger fails closed: no answer of Redis that is not durable becomes a release."""

import os
import signal
from pathlib import Path

import pytest
from ledger_kit import MASTER_KEY, charge, limits

from core.amounts import NANO, Amount
from core.errors import LedgerUnavailable
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import REQUIRED_SETTINGS, LedgerClient, check_configuration, connect

WEAKER = {
    "appendonly": "no", "appendfsync": "everysec", "no-appendfsync-on-rewrite": "yes",
    "maxmemory-policy": "allkeys-lru", "aof-load-truncated": "yes",
}  # fmt: skip


@pytest.fixture
def config(go, admin):
    """Sets a setting for one test."""
    changed = {}

    def change(name, value):
        changed.setdefault(name, go(admin.call("CONFIG", "GET", name))[1])
        go(admin.call("CONFIG", "SET", name, value))

    yield change
    for name, value in changed.items():
        go(admin.call("CONFIG", "SET", name, value))


def test_a_weaker_setting_is_refused_and_stops_the_ledger_until_it_is_right_again(go, ledger, client, config):
    go(ledger.open_tenant("acme", limits=limits(50)))
    for name, wanted in REQUIRED_SETTINGS.items():
        hold = go(ledger.reserve("acme", [charge(1)]))
        go(ledger.check())
        assert go(client.watch_durability())
        config(name, WEAKER[name])
        with pytest.raises(LedgerUnavailable, match=name):
            go(ledger.check())
        for _ in range(2):
            assert not go(client.watch_durability())
        with pytest.raises(LedgerUnavailable, match=name):
            go(ledger.commit("acme", hold.release_id, response=b"x"))
        with pytest.raises(LedgerUnavailable, match=name):
            go(ledger.ping_write())
        config(name, wanted)
        assert go(client.watch_durability())
        go(ledger.commit("acme", hold.release_id, response=b"x"))


def test_a_connection_to_a_server_with_a_weaker_setting_is_not_used(go, ledger, server, config):
    """As after a restart of Redis with other settings."""
    client = LedgerClient(connect(url=server.url))
    client.guard_connections(check_configuration)
    config("appendfsync", "everysec")
    for _ in range(2):
        assert not go(client.watch_durability())
        with pytest.raises(LedgerUnavailable, match="appendfsync") as refused:
            go(Ledger(client, MASTER_KEY).ping_write())
        assert refused.value.code == "ledger-unavailable"
    config("appendfsync", "always")
    assert go(client.watch_durability())
    go(Ledger(client, MASTER_KEY).ping_write())
    go(client.close())


def test_a_server_that_does_not_answer_changes_no_finding(go, tmp_path):
    client = LedgerClient(connect(socket_path=tmp_path / "nothing"))
    with pytest.raises(LedgerUnavailable, match="reached"):
        go(client.watch_durability())
    with pytest.raises(LedgerUnavailable, match="reached"):
        go(Ledger(client, MASTER_KEY).ping_write())
    with pytest.raises(ValueError, match="socket path or a URL"):
        connect()


def test_the_shipped_configuration_is_the_required_one():
    lines = Path(__file__).parents[3].joinpath("deploy/redis.conf").read_text().splitlines()
    shipped = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert shipped["save"] == '""'
    assert {name: shipped[name] for name in REQUIRED_SETTINGS} == REQUIRED_SETTINGS


def test_another_master_key_is_refused(go, ledger, client):
    go(ledger.check())
    go(ledger.check())
    with pytest.raises(LedgerUnavailable, match="master key"):
        go(Ledger(client, MasterKey(bytes(32))).check())


def test_a_full_server_holds_nothing(go, acme, config):
    hold = go(acme.reserve("acme", [charge(1)]))
    config("maxmemory", "1")
    with pytest.raises(LedgerUnavailable, match="full"):
        go(acme.reserve("acme", [charge(1)]))
    with pytest.raises(LedgerUnavailable):
        go(acme.commit("acme", hold.release_id, response=b"x"))
    with pytest.raises(LedgerUnavailable):
        go(acme.ping_write())
    assert go(acme.account("acme", "acme/sentence")).reserved == Amount(NANO)


def test_a_stopped_server_is_a_timeout_and_not_a_hang(go, acme, server):
    hasty = LedgerClient(connect(url=server.url, timeout_s=0.1))
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(LedgerUnavailable):
            go(Ledger(hasty, MASTER_KEY).reserve("acme", [charge(1)]))
    finally:
        os.kill(server.pid, signal.SIGCONT)
    go(hasty.close())
    # the server may still have applied what it was sent: held at most once, and it counts
    assert go(acme.account("acme", "acme/sentence")).reserved in (Amount(0), Amount(NANO))

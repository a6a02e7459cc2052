"""Where a tenant lives, and on which ledger a key is."""

from __future__ import annotations

import pytest

from core.errors import InvalidInput, LedgerUnavailable
from core.ledger import names
from core.ledger.homes import MAIN, HomeMap


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("key", "tenant"),
    [
        (names.tenant_key("acme"), "acme"),
        (names.account_key("acme", "sentence"), "acme"),
        (names.journal_key("seals"), "seals"),
        (names.accounts_key("admin"), "admin"),
        (names.job_key("sessions", "0" * 32), "sessions"),
        (names.shared_limit_key("limits", "requests"), "limits"),
        (names.segments_key("acme"), "acme"),
        (names.archive_index_key("acme"), "acme"),
        (names.archive_index_key("@chain"), None),
        (names.tenant_api_keys_key("acme"), None),
        (names.tenant_api_keys_key("seals"), None),
        (names.api_key_key("0" * 16), None),
        (names.SEAL_CHAIN_KEY, None),
        (names.SEAL_HEADS_KEY, None),
        (names.LEDGER_ID_KEY, None),
        (names.LAST_AUDIT_KEY, None),
        (names.VERSION_KEY, None),
        (names.STORE_ID_KEY, None),
        (names.LEDGER_NAME_KEY, None),
        (names.DUTIES_KEY, None),
        (names.FENCE_KEY, None),
        (names.ADMIN_LOG_KEY, None),
        (names.JOB_OWNERS_KEY, None),
        (names.ALERTS_KEY, None),
        (names.HOMES_KEY, None),
        (names.TENANTS_KEY, None),
        (names.READINESS_KEY, None),
        (names.session_key("0" * 64), None),
        (names.sessions_of_key("0" * 64), None),
        (names.sessions_ended_key("0" * 64), None),
        (names.address_limit_key("0" * 64), None),
        (names.jobs_base_key(names.SHARED_OWNER), None),
        (names.files_key(names.SHARED_OWNER, "domains"), None),
    ],
)
def test_a_key_is_on_the_ledger_of_its_tenant(key: str, tenant: str | None) -> None:
    assert names.tenant_of(key) == tenant


def test_a_new_tenant_gets_a_home_that_it_keeps(go, client, ledger) -> None:
    homes = HomeMap(client, ["east", "west"])
    found = {f"tenant-{n}": go(homes.place(f"tenant-{n}")) for n in range(60)}
    assert set(found.values()) == {MAIN, "east", "west"}
    assert {tenant: go(homes.home(tenant)) for tenant in found} == found
    assert {tenant: go(homes.place(tenant)) for tenant in found} == found
    more = HomeMap(client, ["east", "north", "west"])
    assert {tenant: go(more.place(tenant)) for tenant in found} == found  # whatever is added later

    some = next(iter(found))
    other = "east" if found[some] != "east" else "west"
    with pytest.raises(InvalidInput, match="lives on another ledger"):
        go(homes.place(some, other))
    with pytest.raises(InvalidInput, match="names a ledger"):
        go(homes.place("new", "south"))
    assert go(homes.place("new", "west")) == "west"


def test_a_tenant_from_before_lives_on_the_main_ledger(go, client, ledger) -> None:
    go(client.call("HSET", names.tenant_key("early"), "mode", "tenant"))
    homes = HomeMap(client, ["east"])
    assert go(homes.home("early")) == MAIN
    with pytest.raises(InvalidInput, match="lives on another ledger"):
        go(homes.place("early", "east"))
    assert go(homes.place("early")) == MAIN
    go(client.call("HDEL", names.tenant_key("early"), "mode"))


def test_a_change_is_seen_after_the_time_that_a_map_is_used_for(go, client, ledger) -> None:
    clock = Clock()
    writes, reads = HomeMap(client, ["east"]), HomeMap(client, ["east"], clock=clock)
    go(writes.place("acme", MAIN))
    assert go(reads.home("acme")) == MAIN
    go(writes.set_home("acme", "east"))
    assert go(writes.home("acme")) == "east"
    assert go(reads.home("acme")) == MAIN
    clock.now = 1.0
    assert go(reads.home("acme")) == "east"


def test_a_map_with_an_unknown_ledger_is_refused(go, client, ledger) -> None:
    go(HomeMap(client, ["east"]).place("acme", "east"))
    with pytest.raises(LedgerUnavailable, match="LEDGERS lacks east"):
        go(HomeMap(client, ["west"]).check())
    with pytest.raises(LedgerUnavailable, match="LEDGERS lacks east"):
        go(HomeMap(client, ()).check())
    go(HomeMap(client, ["east"]).check())


def test_a_map_that_lost_entries_is_completed(go, client, ledger) -> None:
    homes = HomeMap(client, ["east"])
    go(homes.place("known", "east"))
    east = Tenants({"known": (), "lost": (), "moved": ("away",), "copied": ("arriving",), "early": ()})
    go(client.call("HSET", names.tenant_key("early"), "mode", "tenant"))
    go(client.call("HSET", names.tenant_key("lost"), "mode", "tenant", "away", "x"))  # what it left behind
    go(homes.adopt(east, "east"))
    again = HomeMap(client, ["east"])
    assert {tenant: go(again.home(tenant)) for tenant in ("known", "lost", "moved", "copied", "early")} == {
        "known": "east",
        "lost": "east",
        "moved": MAIN,
        "copied": MAIN,
        "early": MAIN,
    }
    with pytest.raises(LedgerUnavailable, match="on two ledgers"):
        go(homes.home("early"))
    go(client.call("HDEL", names.tenant_key("early"), "mode"))
    go(client.call("HDEL", names.tenant_key("lost"), "mode", "away"))


class Tenants:
    """The records of tenants on a ledger: each has the fields named."""

    def __init__(self, records: dict[str, tuple[str, ...]]) -> None:
        self._records = records

    async def tenants(self) -> list[str]:
        return sorted(self._records)

    async def call_many(self, commands) -> list[list[bytes | None]]:
        fields = {names.tenant_key(tenant): found for tenant, found in self._records.items()}
        return [
            [b"tenant", *(b"x" if name in fields[key] else None for name in asked)] for _, key, _, *asked in commands
        ]

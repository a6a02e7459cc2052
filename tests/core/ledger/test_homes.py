"""Where a tenant lives, and on which ledger a key is."""

from __future__ import annotations

import asyncio
import time

import pytest

from core.accounting.events import Unit
from core.errors import InvalidInput, LedgerUnavailable, TenantExists
from core.ledger import names
from core.ledger.client import OneLedgerUnavailable
from core.ledger.homes import MAIN, HomeMap
from core.ledger.records import Limit


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


def opened(client, *ledgers: str, clock=time.monotonic) -> HomeMap:
    homes = HomeMap(client, ledgers, clock=clock)
    for ledger in ledgers:
        homes.opened(ledger)
    return homes


def test_a_new_tenant_gets_a_home_that_it_keeps(go, client, ledger) -> None:
    homes = opened(client, "east", "west")
    found = {f"tenant-{n}": go(homes.place(f"tenant-{n}")) for n in range(60)}
    assert set(found.values()) == {MAIN, "east", "west"}
    assert {tenant: go(homes.home(tenant)) for tenant in found} == found
    assert {tenant: go(homes.place(tenant)) for tenant in found} == found
    more = opened(client, "east", "north", "west")
    assert {tenant: go(more.place(tenant)) for tenant in found} == found  # whatever is added later

    some = next(iter(found))
    other = "east" if found[some] != "east" else "west"
    with pytest.raises(InvalidInput, match="lives on another ledger"):
        go(homes.place(some, other))
    with pytest.raises(InvalidInput, match="names a ledger"):
        go(homes.place("new", "south"))
    assert go(homes.place("new", "west")) == "west"


def test_a_new_home_is_seen_at_once_and_a_change_after_the_time_that_a_map_is_used_for(go, client, ledger) -> None:
    clock = Clock()
    writes, reads = opened(client, "east"), opened(client, "east", clock=clock)
    assert go(reads.home("acme")) == MAIN
    go(writes.place("acme", "east"))
    assert go(reads.home("acme")) == "east"
    go(writes.set_home("acme", MAIN))
    assert go(writes.home("acme")) == MAIN
    assert go(reads.home("acme")) == "east"
    clock.now = 1.0
    assert go(reads.home("acme")) == MAIN


def test_a_map_that_is_read_while_homes_are_recorded_hides_none(go, client, ledger) -> None:
    clock = Clock()
    homes = opened(client, "east", clock=clock)

    async def recorded(n: int) -> None:
        tenant = f"t-{n}"
        clock.now += 0.4
        reading = asyncio.create_task(homes.home("other"))
        assert await homes.place(tenant, "east") == "east"
        assert await homes.home(tenant) == "east"
        await reading

    async def together() -> None:
        await asyncio.gather(*(recorded(n) for n in range(40)))

    go(together())


def test_the_main_ledger_refuses_a_tenant_that_lives_elsewhere(go, client, ledger) -> None:
    """Also to a gateway whose settings name no other ledger, or whose map is an old one."""
    go(opened(client, "east").place("acme", "east"))
    with pytest.raises(TenantExists):
        go(ledger.open_tenant("acme", limits={unit: Limit(10**9, 0, None) for unit in Unit}))
    assert go(client.call("EXISTS", names.tenant_key("acme"))) == 0


def test_a_tenant_from_before_lives_on_the_main_ledger(go, client, ledger) -> None:
    go(client.call("HSET", names.tenant_key("early"), "mode", "tenant"))
    homes = opened(client, "east")
    assert go(homes.home("early")) == MAIN
    with pytest.raises(InvalidInput, match="lives on another ledger"):
        go(homes.place("early", "east"))
    assert go(homes.place("early")) == MAIN
    go(client.call("HDEL", names.tenant_key("early"), "mode"))


def test_nothing_is_assumed_of_a_tenant_while_a_ledger_is_not_open(go, client, ledger) -> None:
    go(client.call("HSET", names.tenant_key("early"), "mode", "tenant"))
    homes = HomeMap(client, ["east", "west"])
    homes.opened("west")
    assert go(homes.home("early")) == MAIN
    for work in (homes.home("unknown"), homes.place("unknown"), homes.place("unknown", "west")):
        with pytest.raises(OneLedgerUnavailable):
            go(work)
    assert go(client.call("HGETALL", names.HOMES_KEY)) == {}
    go(client.call("HDEL", names.tenant_key("early"), "mode"))


def test_a_map_with_an_unknown_ledger_is_refused(go, client, ledger) -> None:
    go(opened(client, "east").place("acme", "east"))
    with pytest.raises(LedgerUnavailable, match="LEDGERS lacks east"):
        go(HomeMap(client, ["west"]).check())
    with pytest.raises(LedgerUnavailable, match="LEDGERS lacks east"):
        go(HomeMap(client, ()).check())
    go(HomeMap(client, ["east"]).check())


def test_a_map_that_lost_entries_is_completed(go, client, ledger) -> None:
    homes = opened(client, "east")
    go(homes.place("known", "east"))
    east = Tenants({"known": (), "lost": (), "moved": ("away",), "copied": ("arriving",), "early": ()})
    go(client.call("HSET", names.tenant_key("early"), "mode", "tenant"))
    go(client.call("HSET", names.tenant_key("lost"), "mode", "tenant", "away", "x"))  # what it left behind
    go(homes.adopt(east, "east"))
    again = opened(client, "east")
    assert {tenant: go(again.home(tenant)) for tenant in ("known", "lost", "moved", "copied", "early")} == {
        "known": "east",
        "lost": "east",
        "moved": MAIN,
        "copied": MAIN,
        "early": MAIN,
    }
    with pytest.raises(OneLedgerUnavailable, match="on two ledgers"):
        go(homes.home("early"))
    go(client.call("HDEL", names.tenant_key("early"), "mode"))
    go(client.call("HDEL", names.tenant_key("lost"), "mode", "away"))


def test_a_move_that_ends_while_a_ledger_is_opened_is_no_second_use(go, client, ledger) -> None:
    """The gateway has read the map and the records before the end of the move."""
    homes, mover = opened(client, "east"), opened(client, "east")
    go(mover.place("acme", MAIN))

    class Moving(Tenants):
        reads = 0

        async def call_many(self, commands) -> list[list[bytes | None]]:
            self.reads += 1
            if self.reads == 1:  # the map is that from before
                await mover.set_home("acme", "east")
            return await super().call_many(commands)

    go(homes.adopt(Moving({"acme": ()}), "east"))
    assert go(opened(client, "east").home("acme")) == "east"
    homes.opened("east")
    assert go(homes.home("acme")) in (MAIN, "east")  # not refused

    leaving = opened(client, "east")

    class Leaving(Tenants):
        async def call_many(self, commands) -> list[list[bytes | None]]:
            found = await super().call_many(commands)
            self._records["acme"] = ("away",)
            return found

    go(leaving.adopt(Leaving({"acme": ()}), MAIN))
    assert go(leaving.home("acme")) == "east"


class Tenants:
    """The records of tenants on a ledger: each has the fields named."""

    def __init__(self, records: dict[str, tuple[str, ...]]) -> None:
        self._records = records

    async def tenants(self) -> list[str]:
        return sorted(self._records)

    async def call_many(self, commands) -> list[list[bytes | None]]:
        fields = {names.tenant_key(tenant): found for tenant, found in self._records.items()}
        wanted = [(fields[key], asked) for _, key, _, *asked in commands]
        return [[b"tenant", *(b"x" if name in found else None for name in asked)] for found, asked in wanted]

"""The schema of a ledger: who may serve on it, and how it is migrated while gateways come, go and die."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path

import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY, charge, claim

from core.amounts import NANO, Amount
from core.errors import LedgerUnavailable
from core.ledger import names
from core.ledger.activity import TenantActivity
from core.ledger.alerts import AlertStore
from core.ledger.hash_chain.audit import audit_ledger
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.jobs import JobStore
from core.ledger.keystore import KeyStore
from core.ledger.ledger import Ledger
from core.ledger.migration import SCHEMA
from core.ledger.presence import Presence, Presences
from core.ledger.records import Replay
from core.ledger.schema import Migration, Schema, SchemaState
from core.ledger.series import LedgerSeries
from core.ledger.vault import Vault

FOUND = json.loads(Path(__file__).with_name("data").joinpath("ledger-v2.json").read_text())
RELEASES = FOUND["releases"]
NOW_MS = 1_700_000_100_000
STRICT = [Migration(1), Migration(2), Migration(3)]
LONG_MS = 600_000


def version(go, client) -> bytes | None:
    return go(client.call("GET", names.VERSION_KEY))


def present(gateway_id: str, schema: int, started_ms: int = 0) -> Presence:
    return Presence(gateway_id, f"machine-{gateway_id}", "1.0", schema, started_ms)


@pytest.fixture
def presences(client) -> Presences:
    return Presences(client)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (None, SchemaState(0, 0)),
        (b"2", SchemaState(2, 2)),
        (b"3 2", SchemaState(3, 2)),
        (b"3 3 from 2", SchemaState(3, 3, 2)),
        (b"4 2 from 0", SchemaState(4, 2, 0)),
        (b"three", None),
        (b"", None),
        (b"3 2 from", None),
        (b"-1", None),
    ],
)
def test_the_text_of_a_schema(text, state):
    assert SchemaState.parse(text) == state
    if state is not None and text is not None:
        assert state.text() == text


@pytest.mark.parametrize(
    ("text", "migrations", "may_begin", "may_go_on"),
    [
        (b"3", STRICT, True, True),
        (b"2", STRICT, False, False),
        (None, STRICT, False, False),
        (b"4", STRICT, False, False),
        (b"4 3", STRICT, True, True),  # the newer version permits this one
        (b"5 4", STRICT, False, False),
        (b"2", [*STRICT[:2], Migration(3, new_may_serve=True)], True, True),
        (b"1", [*STRICT[:2], Migration(3, new_may_serve=True)], False, False),
        (b"3 3 from 2", STRICT, False, True),
        (b"4 3 from 3", STRICT, False, True),  # it may go on while it is migrated, and none begins
        (b"4 4 from 3", STRICT, False, False),
        (b"something else", STRICT, False, False),
    ],
)
def test_who_may_serve(go, ledger, client, text, migrations, may_begin, may_go_on):
    go(client.call("SADD", names.TENANTS_KEY, "acme"))
    if text is not None:
        go(client.call("SET", names.VERSION_KEY, text))
    schema = Schema(migrations)
    go(schema.begin(client))  # of a ledger with a tenant: no effect

    def expected(may: bool):
        return contextlib.nullcontext() if may else pytest.raises(LedgerUnavailable, match=r"upgrades\.md")

    with expected(may_begin):
        go(schema.check(client.call))
    with expected(may_go_on):
        schema.check_text(text)


def test_a_fresh_ledger_gets_the_schema(go, ledger, client):
    go(SCHEMA.begin(client))
    assert version(go, client) == str(SCHEMA.number).encode()
    go(SCHEMA.check(client.call))


def test_a_migration_runs_its_steps_once_and_again_after_an_interruption(go, ledger, client, presences):
    ran, fails = [], [True]

    async def second(_):
        ran.append(2)
        return 4

    async def third(_):
        ran.append(3)
        if fails.pop():
            raise LedgerUnavailable("Redis cannot be reached.")
        return 1

    schema = Schema([Migration(1), Migration(2, second), Migration(3, third, old_may_serve=True)])
    go(client.call("SET", names.VERSION_KEY, "1"))
    with pytest.raises(LedgerUnavailable):
        go(schema.migrate(client, presences))
    assert version(go, client) == b"3 2 from 1"
    for one in (schema, SCHEMA, Schema(STRICT[:1])):
        with pytest.raises(LedgerUnavailable):
            go(one.check(client.call))
    fails.append(False)
    assert go(schema.migrate(client, presences)) == 5
    assert ran == [2, 3, 2, 3]
    assert version(go, client) == b"3 2"
    fails.append(True)
    assert go(schema.migrate(client, presences)) == 0
    assert ran == [2, 3, 2, 3]
    go(Schema(STRICT[:2]).check(client.call))  # the last step permits gateways of the schema before it
    with pytest.raises(LedgerUnavailable):
        go(Schema(STRICT[:1]).check(client.call))


def test_a_migration_waits_for_gateways_of_another_schema(go, ledger, client, presences):
    go(client.call("SET", names.VERSION_KEY, "2"))
    go(presences.beat(present("old", 2), ttl_ms=LONG_MS))
    go(presences.beat(present("new", 3), ttl_ms=LONG_MS))
    with pytest.raises(LedgerUnavailable, match=r"machine-old \(schema 2\)"):
        go(Schema(STRICT).migrate(client, presences))
    assert version(go, client) == b"2"  # as before
    permits = Schema([*STRICT[:2], Migration(3, old_may_serve=True)])
    assert permits.number == 3
    go(presences.leave("old"))
    assert go(Schema(STRICT).migrate(client, presences)) == 0
    assert version(go, client) == b"3"


def test_a_migration_that_permits_older_gateways_does_not_wait(go, ledger, client, presences):
    go(client.call("SET", names.VERSION_KEY, "2"))
    go(presences.beat(present("old", 2), ttl_ms=LONG_MS))
    go(Schema([*STRICT[:2], Migration(3, old_may_serve=True)]).migrate(client, presences))
    assert version(go, client) == b"3 2"
    Schema(STRICT[:2]).check_text(version(go, client))


def test_a_gateway_that_starts_during_the_first_look_is_found_or_finds_the_migration(go, ledger, client):
    """It writes its presence before it reads the schema; the migration looks again after it has written its own."""

    class Racing(Presences):
        async def listed(self):
            found = await super().listed()
            await self.beat(present("late", 2), ttl_ms=LONG_MS)
            return found

    go(client.call("SET", names.VERSION_KEY, "2"))
    with pytest.raises(LedgerUnavailable, match="machine-late"):
        go(Schema(STRICT).migrate(client, Racing(client)))
    with pytest.raises(LedgerUnavailable, match="not completed"):
        go(Schema(STRICT[:2]).check(client.call))  # what the late gateway reads next
    go(Presences(client).leave("late"))
    go(Schema(STRICT).migrate(client, Presences(client)))
    assert version(go, client) == b"3"


def test_presences_end_by_themselves(go, ledger, client, admin, presences):
    assert go(presences.beat(present("b", 2, started_ms=5), ttl_ms=LONG_MS)) == (None, 1)
    go(client.call("SET", names.VERSION_KEY, "2"))
    assert go(presences.beat(present("a", 2, started_ms=9), ttl_ms=LONG_MS)) == (b"2", 2)
    assert [one.gateway_id for one in go(presences.listed())] == ["b", "a"]
    go(presences.beat(present("b", 2, started_ms=5), ttl_ms=LONG_MS))  # renewed
    assert len(go(presences.listed())) == 2
    go(admin.call("ZADD", "{seals}:gateways", 1, "b"))  # its time is over
    assert [one.gateway_id for one in go(presences.listed())] == ["a"]
    go(presences.beat(present("a", 2, started_ms=9), ttl_ms=LONG_MS))
    assert go(admin.call("ZCARD", "{seals}:gateways")) == 1
    go(presences.leave("a"))
    assert go(presences.listed()) == []
    assert go(admin.call("ZCARD", "{seals}:gateways")) == 0


@pytest.fixture
def released(go, ledger, client, admin):
    """The ledger that the last released version wrote, opened by this one."""
    for key, dump in FOUND["keys"].items():
        go(admin.call("RESTORE", key, 0, base64.b64decode(dump)))
    return Ledger(client, MASTER_KEY, clock=lambda: NOW_MS)


def test_the_ledger_of_the_last_release_opens_and_goes_on(go, released, client, tmp_path):
    epoch_file = tmp_path / "epoch"
    epoch_file.write_text(json.dumps(FOUND["epoch"]))
    sealer = Sealer(client, MASTER_KEY, epoch_file)
    go(released.check())
    go(SCHEMA.begin(client))
    go(SCHEMA.check(client.call))
    go(sealer.check())
    assert go(audit(released)).ok
    assert go(released.migrate()) == 0

    # balances and replays
    own = go(released.account("acme", "acme/sentence"))
    assert (own.committed, own.reserved) == (Amount(2 * NANO), Amount(NANO))
    assert own.current is not None
    people = go(released.account("people", "people/sentence"))
    assert (people.committed, people.reserved) == (Amount(3 * NANO), Amount(3 * NANO))
    assert go(released.reserve("acme", [charge(1)], claim=claim("one"))) == Replay(RELEASES["committed"], b"stored")

    # what else a gateway finds: keys, jobs, rules and the vault
    assert go(KeyStore(client, MASTER_KEY).authenticate(FOUND["api_key"])).tenant == "acme"
    jobs = JobStore(client, gateway="fixture", clock=lambda: NOW_MS)
    go(jobs.owners.refresh(all_tenants=True))
    assert [(job.job_id, job.state) for job in go(jobs.unfinished_of_all())] == [(FOUND["job"], None)]
    job_id, terms = FOUND["job"], {"former": "fixture", "state": "s", "size": 1}
    assert go(jobs.adopt("acme", job_id, **terms)), "from the data directory that has its files"
    assert go(AlertStore(client, MASTER_KEY).rule("acme", "near")) == {"kind": "budget_used", "share": 0.8}
    assert go(Vault(client, MASTER_KEY, entries_max=10, bytes_max=10**6).get("acme", "talk")) == b"x"

    # its open holds end in every way, in rounds of the duties
    activity = TenantActivity(client)
    go(released.commit("people", RELEASES["open-commit"], response=b"x"))
    go(released.cancel("people", RELEASES["open-cancel"], reason="client-gone"))
    late = Ledger(client, MASTER_KEY, clock=lambda: NOW_MS + 10**7)
    assert go(late.expire_overdue(go(activity.positions()))) == 2
    go(LedgerSeries(client).fold_all(go(activity.positions())))
    assert go(sealer.seal(positions=activity.positions)) is not None
    assert go(released.account("people", "people/sentence")).committed == Amount(5 * NANO)
    go(released.reserve("people", [charge(1, subject="p0"), charge(1, subject="newcomer")]))
    assert go(sealer.seal(positions=activity.positions)) is not None
    report = go(audit_ledger(client, MASTER_KEY, epoch_file))
    assert report.ok, report

"""The schema of a ledger, and the presences of its gateways."""

import pytest
from ledger_kit import MASTER_KEY

from core.errors import LedgerUnavailable
from core.ledger.transitions import Ledger
from core.redis import names
from core.redis.identity import SCHEMA, check_schema
from core.state.gateways import Presence, Presences

LONG_MS = 600_000


def present(gateway_id: str, started_ms: int) -> Presence:
    return Presence(gateway_id, f"machine-{gateway_id}", "1.0", started_ms)


@pytest.mark.parametrize("other", ["0", "2", "2 1", "three", "1\n", ""])
def test_a_ledger_of_another_schema_is_refused(go, client, other) -> None:
    ledger = Ledger(client, MASTER_KEY)
    go(ledger.check())
    assert go(client.call("GET", names.VERSION_KEY)) == SCHEMA
    go(ledger.check())
    go(check_schema(client.call))
    go(client.call("SET", names.VERSION_KEY, other))
    for check in (ledger.check, lambda: check_schema(client.call)):
        with pytest.raises(LedgerUnavailable, match="schema"):
            go(check())
    assert go(client.call("GET", names.VERSION_KEY)) == other.encode()


def test_presences_end_by_themselves(go, ledger, client, admin):
    presences = Presences(client)
    assert go(presences.beat(present("b", 5), ttl_ms=LONG_MS)) == 1
    assert go(presences.beat(present("a", 9), ttl_ms=LONG_MS)) == 2
    assert [one.gateway_id for one in go(presences.listed())] == ["b", "a"]
    go(presences.beat(present("b", 5), ttl_ms=LONG_MS))  # renewed
    assert len(go(presences.listed())) == 2
    go(admin.call("ZADD", "{seals}:gateways", 1, "b"))  # its time is over
    assert [one.gateway_id for one in go(presences.listed())] == ["a"]
    go(presences.beat(present("a", 9), ttl_ms=LONG_MS))
    assert go(admin.call("ZCARD", "{seals}:gateways")) == 1
    go(presences.leave("a"))
    assert go(presences.listed()) == []
    assert go(admin.call("ZCARD", "{seals}:gateways")) == 0

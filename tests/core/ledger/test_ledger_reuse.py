"""Results that are kept for repeats, on real servers and with the ledger's own rights."""

import time
from dataclasses import replace

from ledger_kit import MASTER_KEY, charge

from core.ledger.reuse import KeptResult, ReuseStore
from core.master_key import MasterKey

RELEASE = "0123456789abcdef" * 2
ORIGIN = [b"sentences", b"a private sentence"]


def store(client, *, retention_ms: int = 60_000, places: int = 1000, key: MasterKey = MASTER_KEY) -> ReuseStore:
    return ReuseStore(client, key, retention_ms=retention_ms, places=places)


def test_a_result_is_found_by_its_tenant_price_and_origin_alone(go, client):
    kept = store(client)
    tag = kept.tag("acme", [charge(1)], ORIGIN)
    go(kept.keep("acme", RELEASE, {tag: b"released"}))

    assert go(kept.find("acme", [tag, tag])) == {tag: KeptResult(RELEASE, b"released")}
    assert go(kept.find("other", [tag])) == {}
    dearer, metric = charge(2), charge(1)
    others = [
        kept.tag("other", [charge(1)], ORIGIN),
        kept.tag("acme", [dearer], ORIGIN),
        kept.tag("acme", [charge(1, subject="ada")], ORIGIN),
        kept.tag("acme", [replace(metric, event=replace(metric.event, mechanism="another"))], ORIGIN),
        kept.tag("acme", [charge(1)], [b"sentences", b"a private sentence."]),
        kept.tag("acme", [charge(1)], [b"sentencesa", b" private sentence"]),
        kept.tag("acme", [charge(1)], [*ORIGIN, b""]),
    ]
    assert len({tag, *others}) == len(others) + 1
    assert go(kept.find("acme", others)) == {}


def test_redis_holds_neither_the_content_nor_what_was_released(go, client, admin):
    kept = store(client)
    tag = kept.tag("acme", [charge(1)], ORIGIN)
    go(kept.keep("acme", RELEASE, {tag: b"released"}))
    (key,) = go(admin.call("KEYS", "*reuse*"))
    stored = go(admin.call("GET", key))
    assert not any(part in key + stored for part in (b"private", b"released", bytes.fromhex(RELEASE), tag.encode()))
    assert 0 < go(admin.call("PTTL", key)) <= 60_000


def test_a_result_ends_with_its_retention(go, client):
    kept = store(client, retention_ms=50)
    tag = kept.tag("acme", [charge(1)], ORIGIN)
    go(kept.keep("acme", RELEASE, {tag: b"released"}))
    time.sleep(0.1)
    assert go(kept.find("acme", [tag])) == {}


def test_a_tenant_has_as_many_places_as_it_may(go, client, admin):
    """Two results of one place: the later one is kept, and the earlier tag finds nothing, not the other's result."""
    kept = store(client, places=1)
    first, second = (kept.tag("acme", [charge(1)], [origin]) for origin in (b"first", b"second"))
    go(kept.keep("acme", RELEASE, {first: b"one"}))
    go(kept.keep("acme", RELEASE, {second: b"two"}))
    assert go(kept.find("acme", [first, second])) == {second: KeptResult(RELEASE, b"two")}
    assert len(go(admin.call("KEYS", "*reuse*"))) == 1


def test_what_is_not_authentic_is_not_used(go, client, admin):
    kept = store(client)
    tag = kept.tag("acme", [charge(1)], ORIGIN)
    go(kept.keep("acme", RELEASE, {tag: b"released"}))
    (key,) = go(admin.call("KEYS", "*reuse*"))
    stored = go(admin.call("GET", key))
    for wrong in (b"", b"short", stored[:-1], stored[:-1] + bytes([stored[-1] ^ 1])):
        go(admin.call("SET", key, wrong))
        assert go(kept.find("acme", [tag])) == {}

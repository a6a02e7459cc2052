"""Rules of alerts, their states and the outbox: one step for each change, one holder, and nothing readable in Redis."""

from dataclasses import replace

import pytest
from ledger_kit import LOST_REPLY, MASTER_KEY, Clock, pages_of
from redis_kit import plain

from core.errors import InvalidInput, LedgerUnavailable, TenantLimitReached, UnknownName
from core.redis.names import SHARED_OWNER
from core.state.alerts import Alert, AlertLimits, AlertStore, NewDelivery, RuleState, new_alert_id

SECRET = "https://hooks.example/canary-4711"
ME = "gateway-a"
NOW_MS = 1_790_000_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW_MS)


@pytest.fixture
def store(client, clock) -> AlertStore:
    return AlertStore(client, MASTER_KEY, limits=AlertLimits(rules_max=3, outbox_max=3, kept_max=4), clock=clock)


def fired(rule="near", owner="acme", target="acme/sentence", at_ms=NOW_MS) -> Alert:
    return Alert(new_alert_id(), rule, "budget_used", owner, target, at_ms, None, {"used": 0.5})


def fire(go, store, *alerts, before=None, holder=ME, owner="acme", rule="near"):
    before = before or RuleState()
    open_alerts = dict(before.open) | {alert.target: alert for alert in alerts}
    after = RuleState.of(open_alerts, before.memo)
    dropped = go(
        store.change(
            holder, owner, rule, owner, before, after, alerts=alerts,
            deliveries=[NewDelivery(f"{one.alert_id}.fired", SECRET.encode()) for one in alerts],
        )
    )  # fmt: skip
    return after, dropped


@pytest.fixture
def ruled(go, store):
    go(store.take_lease(ME, ttl_ms=60_000))
    go(store.put_rule("acme", "near", {"url": SECRET}))
    return store


def test_rules_are_stored_listed_replaced_and_deleted(go, store) -> None:
    assert go(store.version()) == 0
    assert go(store.put_rule("acme", "near", {"url": SECRET}))
    assert go(store.put_rule(SHARED_OWNER, "near", {"url": "other"}))
    assert not go(store.put_rule("acme", "near", {"url": SECRET, "more": 1}))
    assert go(store.rule("acme", "near")) == {"url": SECRET, "more": 1}
    assert go(store.rule_names("acme")) == ["near"]
    assert go(store.rule_names("other")) == []
    version = go(store.version())
    assert go(store.owners_changed(version)) == []
    go(store.delete_rule("acme", "near"))
    assert go(store.owners_changed(version)) == ["acme"]
    assert go(store.owners_changed(0)) == [SHARED_OWNER, "acme"]
    for missing in (store.rule("acme", "near"), store.delete_rule("acme", "near")):
        with pytest.raises(UnknownName, match="no such rule"):
            go(missing)
    for name in ("", "A", "../x", "x" * 64, "a:b"):
        with pytest.raises(InvalidInput):
            go(store.put_rule("acme", name, {}))


def test_an_owner_has_a_bounded_number_of_rules(go, store) -> None:
    for name in ("a", "b", "c"):
        go(store.put_rule("acme", name, {}))
    with pytest.raises(TenantLimitReached):
        go(store.put_rule("acme", "d", {}))
    go(store.put_rule("acme", "a", {"again": 1}))
    go(store.put_rule("other", "d", {}))


def test_one_holder_has_the_lease_until_it_ends(go, store) -> None:
    assert go(store.take_lease("a", ttl_ms=60_000))
    assert go(store.take_lease("a", ttl_ms=60_000))
    assert not go(store.take_lease("b", ttl_ms=60_000))
    go(store.release_lease("b"))
    assert not go(store.take_lease("b", ttl_ms=60_000))
    go(store.release_lease("a"))
    assert go(store.take_lease("b", ttl_ms=60_000))


def test_an_alert_its_state_and_its_delivery_are_one_step(go, ruled, clock) -> None:
    alert = fired()
    after, dropped = fire(go, ruled, alert)
    assert dropped == 0
    assert go(ruled.state("acme", "near", "acme")) == after
    assert go(ruled.page("acme", "open", cursor=None, limit=5)).alerts == (alert,)
    assert go(ruled.page("acme", "over", cursor=None, limit=5)).alerts == ()
    assert go(ruled.page("other", None, cursor=None, limit=5)).alerts == ()
    assert fire(go, ruled, fired())[1] is None, "the state has moved on: this alert has fired before"
    assert go(ruled.due_owners(limit=5)) == ["acme"]

    ended = replace(alert, over_ms=clock.now + 5)
    over = NewDelivery(f"{alert.alert_id}.over", b"{}")
    closed = ruled.change(ME, "acme", "near", "acme", after, RuleState(), alerts=[ended], deliveries=[over])
    assert go(closed) == 0
    assert go(ruled.state("acme", "near", "acme")) == RuleState()
    assert go(ruled.page("acme", "open", cursor=None, limit=5)).alerts == ()
    assert go(ruled.page("acme", None, cursor=None, limit=5)).alerts == (ended,)
    assert len(go(ruled.take(ME, "acme", limit=5, claim_ms=1000))) == 2
    with pytest.raises(ValueError, match="changes the state"):
        go(ruled.change(ME, "acme", "near", "acme", after, after, alerts=[ended], deliveries=[]))


def test_only_the_holder_changes_states_and_takes_deliveries(go, ruled) -> None:
    fire(go, ruled, fired())
    before = go(ruled.state("acme", "near", "acme"))
    assert fire(go, ruled, fired(target="acme/token"), before=before, holder="b")[1] is None
    assert go(ruled.take("b", "acme", limit=5, claim_ms=1000)) == []
    assert len(go(ruled.page("acme", None, cursor=None, limit=5)).alerts) == 1


def test_a_delivery_comes_again_until_it_is_settled_with_the_same_id(go, ruled, clock) -> None:
    alert = fired()
    fire(go, ruled, alert)
    [first] = go(ruled.take(ME, "acme", limit=5, claim_ms=1000))
    assert (first.event_id, first.rule, first.body) == (f"{alert.alert_id}.fired", "near", SECRET.encode())
    assert go(ruled.take(ME, "acme", limit=5, claim_ms=1000)) == []
    assert go(ruled.due_owners(limit=5)) == []
    clock.now += 1000  # whoever took it has died
    assert go(ruled.due_owners(limit=5)) == ["acme"]
    [second] = go(ruled.take(ME, "acme", limit=5, claim_ms=1000))
    assert second == replace(first, attempt=2)
    go(ruled.settle(second, result="status-500", wait_ms=5000))
    assert go(ruled.last_delivery("acme", "near")) == (clock.now, "status-500")
    clock.now += 4999
    assert go(ruled.due_owners(limit=5)) == []
    clock.now += 1
    [third] = go(ruled.take(ME, "acme", limit=5, claim_ms=1000))
    assert third == replace(first, attempt=3)
    go(ruled.settle(third, result="delivered", wait_ms=None))
    go(ruled.settle(third, result="late", wait_ms=1))
    clock.now += 10_000
    assert go(ruled.due_owners(limit=5)) == []
    assert go(ruled.last_delivery("acme", "near"))[1] == "delivered"


def test_owners_with_deliveries_come_by_how_long_these_are_due(go, ruled, clock) -> None:
    for owner in ("zeta", "beta"):
        go(ruled.put_rule(owner, "near", {}))
        fire(go, ruled, fired(owner=owner), owner=owner)
        clock.now += 1
    assert go(ruled.due_owners(limit=1)) == ["zeta"]
    assert go(ruled.due_owners(limit=9)) == ["zeta", "beta"]


def test_the_outbox_and_the_list_are_bounded(go, ruled, clock) -> None:
    state = RuleState()
    for number in range(8):
        alert = fired(target=f"job-{number}", at_ms=clock.now + number)
        after = RuleState.of({}, {"last": number})
        ended = replace(alert, over_ms=alert.fired_ms)
        delivery = NewDelivery(f"{alert.alert_id}.fired", b"{}")
        dropped = go(ruled.change(ME, "acme", "near", "acme", state, after, alerts=[ended], deliveries=[delivery]))
        assert dropped == (0 if number < 3 else 1)
        state = after
    listed = go(ruled.page("acme", None, cursor=None, limit=9)).alerts
    assert [alert.target for alert in listed] == ["job-7", "job-6", "job-5", "job-4"]
    open_one = fired()
    fire(go, ruled, open_one, before=state)
    pages = pages_of(go, lambda cursor: ruled.page("acme", None, cursor=cursor, limit=2))
    assert [[alert.target for alert in page.alerts] for page in pages] == [
        ["job-7", "job-6"],
        ["job-5", "job-4"],
        ["acme/sentence"],
    ]
    with pytest.raises(InvalidInput):
        go(ruled.page("acme", None, cursor="marker", limit=2))


def test_a_deleted_rule_ends_its_alerts_and_fires_no_more(go, ruled) -> None:
    alert = fired()
    after, _ = fire(go, ruled, alert)
    go(ruled.delete_rule("acme", "near"))
    assert [one.over_ms for one in go(ruled.page("acme", None, cursor=None, limit=5)).alerts] == [NOW_MS]
    assert fire(go, ruled, fired(target="acme/token"))[1] is None
    assert fire(go, ruled, fired(target="acme/token"), before=after)[1] is None
    go(ruled.put_rule("acme", "near", {}))
    assert go(ruled.state("acme", "near", "acme")) == RuleState()
    assert fire(go, ruled, fired())[1] == 0


def test_a_lost_reply_changes_nothing(go, ruled, faulty, clock) -> None:
    store = AlertStore(faulty.client, MASTER_KEY, clock=clock)
    faulty.plan = [LOST_REPLY]
    assert fire(go, store, fired())[1] == 0
    assert faulty.met == 1
    assert len(go(store.take(ME, "acme", limit=5, claim_ms=1000))) == 1
    assert len(go(store.page("acme", None, cursor=None, limit=5)).alerts) == 1


def test_redis_alone_reads_no_address_and_moves_none(go, ruled, server) -> None:
    go(ruled.put_rule("other", "near", {"url": "https://other.example"}))
    fire(go, ruled, fired())
    with plain(server.admin_url) as redis:
        for key in redis.keys("*"):
            assert b"canary" not in (redis.dump(key) or b"")
        redis.set("{@alerts}:rule:acme:near", redis.get("{@alerts}:rule:other:near"))
        [key] = redis.keys("{@alerts}:delivery:acme:*")
        redis.hset(key, "sealed", redis.get("{@alerts}:rule:other:near"))
    with pytest.raises(LedgerUnavailable):
        go(ruled.rule("acme", "near"))
    assert [one.rule for one in go(ruled.take(ME, "acme", limit=5, claim_ms=1000))] == [""]

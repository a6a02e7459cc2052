"""Reports on budgets and the gateway, and alerts, by the client."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from alert_kit import until
from client_kit import Recorder, client_of, extras
from gateway_kit import Tenant
from history_kit import DAY_MS, HOUR_MS, Past, tenant_with_history
from inprocess_kit import Gateway as InProcessGateway
from inprocess_kit import module_gateway

from privacy_gateway_client import Gateway, Problem, Retry, Unauthorized

HISTORY = [Past(number * DAY_MS + HOUR_MS, 2.0) for number in range(1, 15)]
HOOK = "https://hooks.example/alerts"


gateway = module_gateway(changes={"service.alerts.delivery.ALERT_INTERVAL_S": 0.2})


@pytest.fixture(scope="module")
def seeded(gateway: InProcessGateway) -> Tenant:
    """A tenant that has spent 28 of 100 in 14 days. Its key has the role `admin`."""
    return tenant_with_history(gateway, "reported", HISTORY, epsilon=100)


@pytest.fixture
def client(gateway: InProcessGateway, seeded: Tenant) -> Iterator[Gateway]:
    with client_of(gateway, seeded) as running:
        yield running


@pytest.fixture
def operator(gateway: InProcessGateway) -> Iterator[Gateway]:
    with client_of(gateway, gateway.admin_key) as running:
        yield running


def test_a_report_is_the_object_of_the_gateway_for_the_parameters_of_the_call() -> None:
    for call, query in [
        (lambda client: client.budget.forecast("t/sentence"), {}),
        (
            lambda client: client.budget.spending(
                "t/sentence", by="key", bucket="hour", from_ms=1, to_ms=2, cursor="c", limit=3
            ),
            {"by": "key", "bucket": "hour", "from": "1", "to": "2", "cursor": "c", "limit": "3"},
        ),
        (lambda client: client.admin.integrity(cursor="c", limit=1), {"cursor": "c", "limit": "1"}),
    ]:
        sent = Recorder(lambda _: httpx.Response(200, json={"rows": [{"total": 1.5}]}))
        with Gateway("http://gateway", "key", transport=sent) as client:
            assert call(client) == {"rows": [{"total": 1.5}]}
        assert dict(sent.requests[0].url.params) == query


def test_an_export_has_exact_amounts(client: Gateway) -> None:
    rows = list(client.budget.export_journal("reported/sentence", transition="commit"))
    assert sum(Decimal(row["epsilon"]) for row in rows if row["epsilon"] is not None) == 28
    assert {row["route"] for row in rows} == {"embed/sentdp"}


def test_rules_are_stored_and_what_fired_is_listed(client: Gateway, operator: Gateway) -> None:
    near = {"kind": "budget_used", "share": 0.1, "accounts": ["reported/sentence"]}
    stored = client.alerts.put_rule("near", {"when": near, "webhook": {"url": HOOK}})
    assert stored.webhook.secret is not None
    assert stored.webhook.secret not in repr(stored)
    [listed] = client.alerts.rules()
    assert listed == client.alerts.rule("near")
    assert (listed.webhook.url, listed.webhook.secret, listed.when) == (HOOK, None, near)

    [alert] = until(lambda: list(client.alerts.fired(status="open")))
    assert (alert["rule"], alert["target"], alert["status"]) == ("near", "reported/sentence", "open")
    assert (alert["over_ms"], alert["facts"]["share"]) == (None, 0.1)
    client.alerts.delete_rule("near")

    own = operator.admin.alerts.put_rule("unsealed", {"when": {"kind": "integrity"}, "tenants": ["reported"]})
    assert own.tenants == ["reported"]
    assert operator.admin.alerts.rule("unsealed") in operator.admin.alerts.rules()
    operator.admin.alerts.delete_rule("unsealed")
    assert not extras(stored) | extras(listed) | extras(own)


def events(name: str, data: dict[str, Any]) -> Recorder:
    content = f"event: {name}\nid: 7\ndata: {json.dumps(data)}\n\n".encode()
    return Recorder(lambda _: httpx.Response(200, content=content, headers={"Content-Type": "text/event-stream"}))


@pytest.mark.parametrize(("code", "kind"), [("unauthorized", Unauthorized), ("ledger-unavailable", Problem)])
def test_a_stream_of_changes_ends_with_its_problem(code: str, kind: type[Problem]) -> None:
    """Written out, because a stream of the in-process gateway does not end."""
    settings: dict[str, Any] = {"retry": Retry(attempts=1)}
    with Gateway("http://gateway", "key", transport=events("budget", {"last_entry": 7}), **settings) as client:
        assert [change["last_entry"] for change in client.budget.events()] == [7]
    problem = {"code": code, "status": 401 if kind is Unauthorized else 503}
    with (
        Gateway("http://gateway", "key", transport=events("problem", problem), **settings) as client,
        pytest.raises(kind) as ended,
    ):
        list(client.budget.events())
    assert ended.value.code == code

"""Reports on budgets and the gateway, and alerts, by the client."""

from __future__ import annotations

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


gateway = module_gateway(SERIES_INTERVAL_S="0.2", ALERT_INTERVAL_S="0.2")


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


def test_a_forecast_has_a_band(client: Gateway) -> None:
    def found() -> Any:
        answer = client.budget.forecast("reported/sentence")
        # The sums of hours, and then those of days, are made every few seconds.
        return answer if answer["exhausted_ms"] and answer["history"]["step_s"] == DAY_MS // 1000 else None

    forecast = until(found)
    assert forecast["spent"]["epsilon"] == 28
    assert forecast["spent"]["exhausted_at"] == pytest.approx(100)
    assert forecast["history"]["intervals"] in (13, 14)  # whole days of the calendar
    assert forecast["exhausted_ms"]["earliest"] <= forecast["exhausted_ms"]["middle"]
    assert forecast["line"][0]["middle"] >= 28


def test_an_account_without_a_history_has_a_reason(gateway: InProcessGateway, tenant: Tenant) -> None:
    with client_of(gateway, tenant) as client:
        forecast = client.budget.forecast(f"{tenant.name}/sentence")
    assert (forecast["exhausted_ms"], forecast["line"]) == (None, [])
    assert forecast["reason"] == "too-little-history"


def test_spending_is_divided(client: Gateway) -> None:
    def found() -> Any:
        answer = client.budget.spending("reported/sentence", by="route")
        return answer if answer["rows"] and answer["rows"][0]["total"]["epsilon"] == 28 else None

    [row] = until(found)["rows"]
    assert row["route"] == "embed/sentdp"
    assert "mechanism" not in row
    assert sum(bucket["releases"] for bucket in row["buckets"]) == 14
    by_key = client.budget.spending("reported/sentence", by="key", bucket="hour", limit=1)
    assert (by_key["by"], by_key["bucket_s"], len(by_key["rows"])) == ("key", 3600, 1)


def test_spending_by_subject_names_their_accounts(gateway: InProcessGateway) -> None:
    past = [Past(HOUR_MS, 3.0, subject="ada"), Past(2 * HOUR_MS, 1.0, subject="bob")]
    tenant = tenant_with_history(gateway, "with-subjects", past, epsilon=100, subject_epsilon=10)
    with client_of(gateway, tenant) as client:

        def found() -> Any:
            page = client.budget.spending("with-subjects/sentence", by="subject")
            return page if len(page["rows"]) == 2 else None  # subjects are ordered every few seconds

        page = until(found)
    assert [row["total"]["epsilon"] for row in page["rows"]] == [3, 1]
    assert page["rows"][0]["subject"].startswith("with-subjects/sentence/")
    assert page["rows"][0]["complete"]


def test_bounds_and_integrity(client: Gateway, operator: Gateway) -> None:
    bounds = client.budget.bounds("reported/sentence")
    assert [(line["label"], line["epsilon"]) for line in bounds["lines"] if line["name"] in ("limit", "basic")] == [
        ("proven", 100),
        ("proven", 28),
    ]
    integrity = client.budget.integrity()
    assert integrity["journal"]["entries"] == 29
    assert {row["unit"]: row["epsilon"] for row in integrity["spent_without_output"]}["sentence"] == 0
    every = operator.admin.integrity(limit=1)
    assert len(every["tenants"]) == 1
    assert every["next_cursor"] is not None


def test_an_export_has_exact_amounts(client: Gateway) -> None:
    rows = list(client.budget.export_journal("reported/sentence", transition="commit"))
    assert sum(Decimal(row["epsilon"]) for row in rows if row["epsilon"] is not None) == 28
    assert {row["route"] for row in rows} == {"embed/sentdp"}


def test_the_service_reports_its_workers(operator: Gateway, tenant: Tenant) -> None:
    assert tenant.embed().status_code == 200
    service = operator.admin.service()
    assert "embed" in [worker["role"] for worker in service["workers"]]
    assert next(row for row in service["requests"] if row["route"].endswith("/embed/sentdp"))["statuses"]["200"] >= 1


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

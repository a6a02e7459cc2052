"""The view of alerts, in a real browser: what fired, its rules, a sample, and nothing of another tenant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from alert_kit import Receiver, until
from browser_kit import Browser, expect, needs_chromium, running_browser, sign_in
from gateway_kit import LEAN, Gateway, Tenant
from view_kit import accessible, watched

pytestmark = [needs_chromium, pytest.mark.slow("browser")]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {
        "PRIVACY_GATEWAY_ALERT_INTERVAL_S": "0.2",
        "PRIVACY_GATEWAY_ALERT_WEBHOOK_PRIVATE_ADDRESSES": "true",
    }
    running = Gateway(tmp_path_factory.mktemp("alert-view") / "data", LEAN | settings)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def alarmed(served: Gateway, receiver: Receiver) -> Tenant:
    """A tenant whose alert has fired and arrived."""
    opened = served.tenant(epsilon=10)
    roles = {"roles": ["read", "release", "admin"]}
    key = served.admin.post(f"/admin/tenants/{opened.name}/keys", json=roles).json()["key"]
    tenant = Tenant(opened.name, key, served.client(key))
    rule = {
        "when": {"kind": "budget_used", "share": 0.5, "accounts": [f"{tenant.name}/sentence"]},
        "webhook": {"url": receiver.url},
    }
    assert tenant.http.put("/alerts/rules/half-spent", json=rule).status_code == 201
    assert tenant.embed(epsilon=6).status_code == 200
    until(lambda: tenant.http.get("/alerts/rules/half-spent").json()["last_delivery"])
    return tenant


def test_an_alert_and_its_rule_are_shown(
    served: Gateway, alarmed: Tenant, browser: Browser, receiver: Receiver
) -> None:
    [alert] = alarmed.http.get("/alerts").json()["alerts"]
    with watched(browser, served.url) as (page, _):
        sign_in(page, alarmed.key, "/dashboard/alerts")
        alerts = page.get_by_role("table", name="Alerts, newest first")
        expect(alerts).to_contain_text(alert["target"])
        expect(alerts).to_contain_text(f"used: {alert['facts']['used']}")
        expect(page.get_by_role("table", name="Rules")).to_contain_text("webhook: delivered")
        page.get_by_role("button", name="Send a sample of half-spent").click()
        expect(page.get_by_text("webhook: delivered", exact=True)).to_be_visible()
        assert "alert.sample" in {event["type"] for event in receiver.events(alarmed.name)}
        page.get_by_label("Status").select_option("over")
        expect(page.get_by_text("No alert.")).to_be_visible()
        assert page.url.endswith("?status=over")


def test_a_reader_sees_no_rules_and_no_other_tenant(served: Gateway, alarmed: Tenant, browser: Browser) -> None:
    with watched(browser, served.url) as (page, _):
        sign_in(page, served.tenant().key, "/dashboard/alerts")
        expect(page.get_by_text("No alert.")).to_be_visible()
        text = page.locator("body").inner_text()
        assert alarmed.name not in text
        assert "Rules" not in text


def test_the_view_is_accessible(served: Gateway, alarmed: Tenant, browser: Browser) -> None:
    accessible(browser, served.url, alarmed.key, ("alerts",), lambda _: None)

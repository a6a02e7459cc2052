"""The view of alerts, in a real browser: what fired, rules that are made, changed and deleted, for tenants and the
operator."""

from collections.abc import Iterator
from typing import Any

import pytest
from alert_kit import Receiver, is_genuine, until
from browser_kit import Browser, Page, agree, expect, needs_chromium, open_page, sign_in, until_shown
from constants_kit import constants
from gateway_kit import LEAN, Gateway, Tenant
from view_kit import accessible, harmless

pytestmark = [needs_chromium, pytest.mark.slow("browser")]

VIEW = "/dashboard/alerts"
LONGEST = "n" * 63


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = {"PRIVACY_GATEWAY_ALERT_WEBHOOK_PRIVATE_ADDRESSES": "true"}
    running = Gateway(
        tmp_path_factory.mktemp("alert-view") / "data",
        LEAN | settings | constants({"service.alerts.delivery.ALERT_INTERVAL_S": 0.2}),
    )
    yield running
    running.stop()


def administrator(served: Gateway, **fields: Any) -> Tenant:
    """A tenant whose key may change rules."""
    return served.with_key(served.tenant(**fields), "read", "release", "admin")


@pytest.fixture(scope="module")
def alarmed(served: Gateway, receiver: Receiver) -> Tenant:
    """A tenant whose alert has fired and arrived, once for it and once for the operator."""
    tenant = administrator(served, epsilon=10)
    rule = {
        "when": {"kind": "budget_used", "share": 0.5, "accounts": [f"{tenant.name}/sentence"]},
        "webhook": {"url": receiver.url},
    }
    assert tenant.http.put("/alerts/rules/half-spent", json=rule).status_code == 201
    assert tenant.http.put(f"/alerts/rules/{LONGEST}", json={"when": {"kind": "integrity"}}).status_code == 201
    everybody = {"when": {"kind": "budget_used", "share": 0.5}, "tenants": [tenant.name]}
    assert served.admin.put("/admin/alerts/rules/any-tenant", json=everybody).status_code == 201
    assert tenant.embed(epsilon=6).status_code == 200
    until(lambda: tenant.http.get("/alerts/rules/half-spent").json()["last_delivery"])
    until(lambda: served.admin.get("/admin/alerts").json()["alerts"])
    return tenant


def rule_row(page: Page, name: str) -> Any:
    return page.get_by_role("table", name="Rules, with their state").get_by_role("row").filter(has_text=name)


def store(page: Page) -> None:
    page.get_by_role("button", name="Store the rule").click()


def test_an_alert_and_its_rule_are_shown(
    served: Gateway, alarmed: Tenant, browser: Browser, receiver: Receiver
) -> None:
    [alert] = alarmed.http.get("/alerts").json()["alerts"]
    with open_page(browser, served.url) as page:
        sign_in(page, alarmed.key, VIEW)
        alerts = page.get_by_role("table", name="Alerts, newest first")
        expect(alerts).to_contain_text(alert["target"])
        expect(alerts).to_contain_text(f"used: {alert['facts']['used']}")
        expect(rule_row(page, "half-spent")).to_contain_text("firing")
        expect(rule_row(page, "half-spent")).to_contain_text("delivered, ")
        expect(rule_row(page, LONGEST)).to_contain_text("has not fired")
        page.get_by_role("button", name="Send a sample of half-spent").click()
        expect(page.locator("#said")).to_have_text("Sample of half-spent: webhook: delivered.")
        assert "alert.sample" in {event["type"] for event in receiver.events(alarmed.name)}
        page.get_by_label("Status").select_option("over")
        expect(page.get_by_text("No alert.")).to_be_visible()
        assert page.url.endswith("?status=over")


def test_each_kind_of_rule_has_a_form(served: Gateway, browser: Browser) -> None:
    tenant = administrator(served)
    account = f"{tenant.name}/sentence"
    kinds: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "budget_used": (
            {"Share": "0.75", "Accounts": f"{account}, {tenant.name}/token"},
            {"share": 0.75, "accounts": [account, f"{tenant.name}/token"]},
        ),
        "forecast": ({"Days": "2.5", "Case": "earliest"}, {"days": 2.5, "case": "earliest", "accounts": None}),
        "spent_without_output": ({"Hours": "48", "Epsilon": "0.5"}, {"hours": 48, "epsilon": 0.5}),
        "unusual_spending": ({"Factor": "3"}, {"factor": 3, "epsilon": 0}),
        "integrity": ({"Age of the last seal": "600"}, {"seal_age_s": 600}),
        "job_ended": ({"succeeded": ""}, {"statuses": ["failed", "cancelled"]}),
    }
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, VIEW)
        expect(page.get_by_text("No rule yet.")).to_be_visible()
        assert page.get_by_label("Tenants").count() == 0
        for kind, (filled, stored) in kinds.items():
            page.get_by_label("Name").fill(kind)
            page.get_by_label("Fires on").select_option(kind)
            for label, value in filled.items():
                control = page.get_by_role("region", name="Rules").get_by_label(label)
                if label == "Case":
                    control.select_option(value)
                elif value:
                    control.fill(value)
                else:
                    control.uncheck()
            store(page)
            expect(page.locator("#said")).to_have_text(f"The rule {kind} is stored.")
            expect(page.locator("#said")).to_be_focused()
            expect(rule_row(page, kind)).to_contain_text("has not fired")
            assert tenant.http.get(f"/alerts/rules/{kind}").json()["when"] == {"kind": kind, **stored}
            expect(page.get_by_label("Name")).to_have_value("")


def test_the_secret_of_a_webhook_is_shown_once(served: Gateway, browser: Browser, receiver: Receiver) -> None:
    tenant = administrator(served)
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, VIEW)
        page.get_by_label("Name").fill("signed")
        page.get_by_label("Webhook").fill(receiver.url)
        store(page)
        first = page.locator("#new-secret").inner_text()
        assert tenant.http.post("/alerts/rules/signed/test").json() == {"results": {"webhook": "delivered"}}
        headers, body = next(sent for sent in receiver.received if tenant.name.encode() in sent[1])
        assert is_genuine(first, headers, body)
        page.get_by_role("button", name="Change signed").click()
        expect(page.get_by_label("Fires on")).to_be_focused()
        expect(page.get_by_label("Webhook")).to_have_value(receiver.url)
        page.get_by_label("Share").fill("0.25")
        page.get_by_label("Replace the secret").check()
        store(page)
        expect(page.locator("#new-secret")).not_to_have_text(first)
        second = page.locator("#new-secret").inner_text()
        assert tenant.http.get("/alerts/rules/signed").json()["when"]["share"] == 0.25
        page.reload()
        until_shown(page)
        expect(rule_row(page, "signed")).to_have_count(1)
        assert not any(secret in page.content() for secret in (first, second))


def test_a_rule_is_replaced_and_deleted_when_it_was_asked_for_twice(served: Gateway, browser: Browser) -> None:
    tenant = administrator(served)
    original = {"kind": "integrity", "seal_age_s": 60}
    assert tenant.http.put("/alerts/rules/watch", json={"when": original}).status_code == 201
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, VIEW)
        page.get_by_label("Name").fill("watch")
        store(page)
        agree(page, "Cancel")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert tenant.http.get("/alerts/rules/watch").json()["when"] == original
        delete = page.get_by_role("button", name="Delete watch")
        delete.click()
        agree(page, "Cancel")
        expect(delete).to_be_focused()
        assert tenant.http.get("/alerts/rules/watch").status_code == 200
        delete.click()
        agree(page, "Delete the rule")
        expect(page.get_by_text("No rule yet.")).to_be_visible()
        assert tenant.http.get("/alerts/rules/watch").status_code == 404


def test_a_wrong_rule_is_explained_and_stays_in_the_form(served: Gateway, browser: Browser) -> None:
    tenant = administrator(served)
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, VIEW)
        for share, url, message in (("half", "", "share must be a number"), ("0.5", "ftp://receiver", "webhook")):
            page.get_by_label("Name").fill("a")
            page.get_by_label("Share").fill(share)
            page.get_by_label("Webhook").fill(url)
            store(page)
            expect(page.get_by_role("alert")).to_contain_text(message)
            expect(page.get_by_role("alert")).to_be_in_viewport()
            expect(page.get_by_label("Share")).to_have_value(share)
        assert tenant.http.get("/alerts/rules").json() == {"rules": []}


def test_a_reader_sees_no_rules_and_no_other_tenant(served: Gateway, alarmed: Tenant, browser: Browser) -> None:
    with open_page(browser, served.url) as page:
        sign_in(page, served.tenant().key, VIEW)
        expect(page.get_by_text("No alert.")).to_be_visible()
        text = page.locator("body").inner_text()
        assert alarmed.name not in text
        assert "Rules" not in text


def test_the_operator_has_rules_about_tenants(served: Gateway, alarmed: Tenant, browser: Browser) -> None:
    with open_page(browser, served.url) as page:
        sign_in(page, served.admin_key, VIEW)
        alerts = page.get_by_role("table", name="Alerts, newest first")
        expect(alerts.get_by_role("row").filter(has_text=f"{alarmed.name}/sentence")).to_contain_text("any-tenant")
        expect(rule_row(page, "any-tenant")).to_contain_text("firing, 2 alerts")
        expect(page.locator("main")).not_to_contain_text("half-spent")
        page.get_by_label("Name").fill("of-one")
        page.get_by_label("Fires on").select_option("job_ended")
        page.get_by_label("Tenants").fill(alarmed.name)
        store(page)
        expect(rule_row(page, "of-one")).to_contain_text(f"tenants: {alarmed.name}")
        found = served.admin.get("/admin/alerts/rules/of-one").json()
        assert (found["tenants"], found["when"]["kind"]) == ([alarmed.name], "job_ended")
        assert alarmed.http.get("/alerts/rules/of-one").status_code == 404
        page.get_by_role("button", name="Delete of-one").click()
        agree(page, "Delete the rule")
        expect(rule_row(page, "of-one")).to_have_count(0)


def test_the_view_is_accessible_and_no_string_becomes_markup(
    served: Gateway, alarmed: Tenant, browser: Browser
) -> None:
    def change(page: Page) -> None:
        page.get_by_role("button", name="Change ").first.click()

    for key in (alarmed.key, served.admin_key):
        accessible(browser, served.url, key, ("alerts",), change)
        harmless(browser, served.url, key, ("alerts",), change)

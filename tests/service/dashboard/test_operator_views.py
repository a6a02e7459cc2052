"""The operator's views in a real browser, on the admin port of a real gateway."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from alert_kit import until
from axe_playwright_python.sync_playwright import Axe
from browser_kit import Browser, agree, expect, needs_chromium, open_page, sign_in, until_shown
from command_kit import run_command
from gateway_kit import LEAN, Gateway, Tenant, free_port
from history_kit import HOUR_MS, Past, tenant_with_history
from view_kit import accessible, figures, harmless

from core.accounting.events import Unit

pytestmark = [needs_chromium, pytest.mark.slow("browser")]

VIEWS = ("service", "tenants", "audit", "integrity", "alerts")


class WithAdminPort(Gateway):
    """A gateway whose administration has a port of its own."""

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.environment['PRIVACY_GATEWAY_ADMIN_PORT']}"

    @property
    def admin(self) -> httpx.Client:
        client = super().admin
        client.base_url = httpx.URL(self.admin_url)
        return client


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithAdminPort]:
    settings = LEAN | {"PRIVACY_GATEWAY_ADMIN_PORT": str(free_port())}
    running = WithAdminPort(tmp_path_factory.mktemp("operator-views") / "data", settings)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def tenant(served: WithAdminPort) -> Tenant:
    """A tenant that has released something."""
    opened = served.tenant(epsilon=50.0)
    assert opened.embed(epsilon=4.0).status_code == 200
    assert opened.embed(epsilon=-1).status_code == 422
    return opened


def test_the_service_is_live_with_the_figures_of_the_api(
    served: WithAdminPort, tenant: Tenant, browser: Browser
) -> None:
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key)
        assert page.locator("nav a").all_inner_texts() == ["Service", "Tenants", "Audit log", "Integrity", "Alerts"]
        found = served.admin.get("/admin/service").json()
        release = next(row for row in found["requests"] if row["route"] == "/embed/sentdp")
        table = page.get_by_role("table", name="Requests by route")
        assert figures(table, "/embed/sentdp")[0] == release["seconds"]["count"] == 2
        expect(table.get_by_role("row").filter(has_text="/embed/sentdp")).to_contain_text("200: 1, 422: 1")
        problems = page.get_by_role("table", name="Problems by code")
        count = next(row["count"] for row in found["problems"] if row["code"] == "invalid-input")
        assert figures(problems, "invalid-input") == [count]
        workers = page.get_by_role("table", name="Workers by role")
        expect(workers.get_by_role("row").filter(has_text="embed")).to_contain_text("ready")
        expect(page.locator(".card").filter(has_text="The ledger is durable")).to_contain_text("yes")
        row = table.get_by_role("row").filter(has_text="/entities")
        assert row.count() == 0
        assert tenant.http.get("/entities").status_code == 200
        expect(row).to_contain_text("200: 1")


def test_budgets_of_a_tenant_are_those_of_the_api(served: WithAdminPort, tenant: Tenant, browser: Browser) -> None:
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, f"/dashboard/tenants?tenant={tenant.name}")
        table = page.get_by_role("table", name=f"Accounts of {tenant.name}")
        for account in served.admin.get(f"/admin/tenants/{tenant.name}/budgets").json()["accounts"]:
            assert figures(table, account["account"]) == [
                account["limit"]["epsilon"],
                account["limit"]["epsilon"],  # no current limit is set
                account["limit"]["delta"],
                account["committed"]["epsilon"],
                account["reserved"]["epsilon"],
                account["remaining"]["epsilon"],
            ]


def test_what_ends_first_is_on_top(served: WithAdminPort, browser: Browser) -> None:
    day_ms = 24 * HOUR_MS
    tenant_with_history(served, "slow", [Past(day_ms, 1), Past(3 * day_ms, 1)], epsilon=400)
    quick = tenant_with_history(served, "fast", [Past(day_ms, 6), Past(2 * day_ms, 6)], epsilon=20)
    assert quick.embed(epsilon=10).status_code == 403
    tenant_with_history(served, "ended", [Past(HOUR_MS, 2)], epsilon=2)
    until(lambda: all(row["accounts"][0]["per_day"] for row in outlook(served, "slow", "fast", "ended")))
    until(lambda: outlook(served, "fast")[0]["refused"][-1])
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, "/dashboard/tenants")
        names = page.get_by_role("table").first.get_by_role("button", name=re.compile("^(slow|fast|ended)$"))
        assert names.all_inner_texts() == ["ended", "fast", "slow"]
        table = page.get_by_role("table").first
        expect(table.get_by_role("row").filter(has_text="ended")).to_contain_text("refuses every request")
        fast = next(iter(outlook(served, "fast")))["accounts"][0]
        assert figures(table, "fast") == pytest.approx([fast["spent"], fast["per_day"], fast["remaining"], 1], rel=0.01)


def outlook(served: WithAdminPort, *names: str) -> list[dict[str, Any]]:
    """These tenants, from pages of two."""
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = served.admin.get("/admin/outlook", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        found += page["tenants"]
        cursor = page["next_cursor"]
    return [each for each in found if each["name"] in names]


def test_a_tenant_is_created_when_it_was_asked_for_twice(served: WithAdminPort, browser: Browser) -> None:
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, "/dashboard/tenants")
        page.get_by_label("Name").fill("from-the-page")
        page.get_by_label("Epsilon of each unit").fill("12.5")
        page.get_by_role("button", name="Create the tenant").click()
        agree(page, "Cancel")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert served.admin.get("/admin/tenants/from-the-page/budgets").status_code == 404
        page.get_by_role("button", name="Create the tenant").click()
        agree(page, "Create the tenant")
        key = page.locator("#new-key").inner_text()
        accounts = served.client(key).get("/budget").json()["accounts"]
        assert {each["limit"]["epsilon"] for each in accounts} == {12.5}
        page.reload()
        until_shown(page)
        assert key not in page.content()


def test_a_limit_is_raised(served: WithAdminPort, browser: Browser) -> None:
    tenant = served.tenant(epsilon=30)
    assert served.admin.put(f"/admin/tenants/{tenant.name}/budgets/token/limit", json={"epsilon": 6}).status_code == 200
    assert tenant.embed(epsilon=5).status_code == 200
    assert tenant.embed(epsilon=5).status_code == 403
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, f"/dashboard/tenants?tenant={tenant.name}")
        table = page.get_by_role("table", name=f"Accounts of {tenant.name}")
        assert figures(table, f"{tenant.name}/token")[:2] == [30, 6]
        page.get_by_label("Account", exact=True).select_option(label=f"{tenant.name}/token")
        page.get_by_label("Reason", exact=True).fill("a larger project")
        epsilon = page.get_by_label("Epsilon that it may spend")
        epsilon.fill("31")
        page.get_by_role("button", name="Set the current limit").click()
        until(lambda: "From 0 to 30" in epsilon.evaluate("each => each.validationMessage"))
        expect(page.get_by_role("dialog")).to_have_count(0)
        epsilon.fill("12")
        page.get_by_role("button", name="Set the current limit").click()
        question = page.get_by_role("dialog").get_by_role("paragraph")
        expect(question).to_contain_text("Any request above epsilon 7 is refused at once.")
        expect(question).to_contain_text("1 more fit, instead of 0")
        agree(page, "Set the current limit")
        until(lambda: figures(table, f"{tenant.name}/token")[:2] == [30, 12])
    assert tenant.embed(epsilon=5).status_code == 200
    entry = next(each for each in reversed(served.admin_log()) if each["action"] == "tenant.limit")
    assert entry["details"] == {"epsilon": "12.0", "reason": "a larger project"}


def test_an_action_that_failed_looks_failed(served: WithAdminPort, tenant: Tenant, browser: Browser) -> None:
    assert served.admin.post("/admin/tenants", json={"name": tenant.name, "epsilon": 1}).status_code == 409
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, "/dashboard/audit")
        rows = page.get_by_role("row").filter(has_text=tenant.name).filter(has_text="tenant.create")
        expect(rows.nth(0)).to_contain_text("done")
        for failed in (rows.nth(1), rows.nth(2)):
            expect(failed.locator(".bad")).to_have_text("failed: tenant-exists")


def test_a_tenant_is_suspended_resumed_and_closed(served: WithAdminPort, browser: Browser) -> None:
    tenant = served.tenant()
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, f"/dashboard/tenants?tenant={tenant.name}")

        def change(action: str, state: str, *, questions: int = 1) -> None:
            page.get_by_label("Reason, for the audit log").fill("as agreed")
            page.get_by_role("button", name=action).click()
            for _ in range(questions):
                agree(page, action)
            expect(page.get_by_text(f"The tenant is {state}.")).to_be_visible()

        change("Suspend the tenant", "suspended")
        assert tenant.embed().json()["code"] == "tenant-suspended"
        change("Resume the tenant", "active")
        assert tenant.embed().status_code == 200
        page.get_by_role("button", name="Close the tenant").click()
        expect(page.get_by_role("dialog")).to_have_count(0)  # without a reason
        change("Close the tenant", "closed", questions=2)
        assert tenant.http.get("/budget").status_code == 401


def test_keys_of_a_tenant_are_created_and_revoked(served: WithAdminPort, tenant: Tenant, browser: Browser) -> None:
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, f"/dashboard/tenants?tenant={tenant.name}")
        page.get_by_label("Label").fill("by the operator")
        page.get_by_role("button", name="Create", exact=True).click()
        agree(page, "Create the key")
        key = page.locator("#new-key").inner_text()
        key_id = key.split("_")[1]
        assert served.client(key).get("/budget").status_code == 200
        page.get_by_role("button", name=f"Revoke {key_id}").click()
        agree(page, "Revoke the key")
        expect(page.get_by_role("row").filter(has_text=key_id)).to_contain_text("revoked")
        assert served.client(key).get("/budget").status_code == 401
        page.get_by_role("link", name="Audit log").click()
        until_shown(page)
        rows = page.get_by_role("row").filter(has_text=f"{tenant.name}/{key_id}")
        expect(rows).to_have_count(2)
        expect(rows.last).to_contain_text("key.revoke")
        expect(rows.first).to_contain_text("by the operator")


def test_sessions_of_a_tenant_are_ended(served: WithAdminPort, tenant: Tenant, browser: Browser) -> None:
    own = served.new_client({"Authorization": f"Bearer {tenant.key}"})
    cookies = own.post("/dashboard/session").cookies
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, f"/dashboard/tenants?tenant={tenant.name}")
        page.get_by_role("button", name="End all sessions").click()
        agree(page, "End all sessions")
        expect(page.get_by_text(f"Every session of {tenant.name} has ended.")).to_be_visible()
    assert httpx.get(f"{served.url}/budget", cookies=cookies, timeout=60).status_code == 401


def test_integrity_of_all_tenants_has_the_figures_of_the_api(served: WithAdminPort, browser: Browser) -> None:
    past = [Past(HOUR_MS, 2.5, end="expire"), Past(HOUR_MS, 0.5, end="expire", unit=Unit.TOKEN), Past(0, 1, end="open")]
    tenant_with_history(served, "unlucky", past, epsilon=50)
    with ThreadPoolExecutor(1) as thread:  # this thread runs the loop of the browser's driver
        for command in ("seal", "audit"):
            assert thread.submit(run_command, served.data_dir, "ledger", command).result().returncode == 0

    def is_settled() -> bool:
        """Whether what is lost is counted and every entry is sealed, so that no figure changes any more."""
        tenants = served.admin.get("/admin/integrity").json()["tenants"]
        lost = sum(each["releases"] for each in tenants[-1]["spent_without_output"])
        return lost == 3 and not any(each["journal"]["unsealed"] for each in tenants)

    until(is_settled)
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, "/dashboard/integrity")
        found = served.admin.get("/admin/integrity").json()
        table = page.get_by_role("table", name=f"All tenants, {len(found['tenants'])}")
        for each in found["tenants"]:
            shown = [each["journal"]["entries"], each["journal"]["unsealed"], each["open_holds"]["number"]]
            assert figures(table, each["tenant"])[:3] == shown
        unlucky = table.get_by_role("row").filter(has_text="unlucky")
        expect(unlucky).to_contain_text("sentence: epsilon 2.5 in 1 release")
        expect(unlucky).to_contain_text("token: epsilon 3 in 2 releases")
        assert unlucky.locator("time").count() == 1, "the first deadline of its open hold"
        seal = page.locator(".card").filter(has_text="Last seal").locator("[data-value]")
        assert float(seal.last.get_attribute("data-value") or "nan") == found["epoch"]
        audit = found["last_audit"]
        expect(page.locator(".card").filter(has_text="Last audit")).to_contain_text("no fault")
        expect(page.locator(".card").filter(has_text="chain of seals")).to_contain_text("yes")
        faults = page.locator(".card").filter(has_text="Tenants with faults").locator("[data-value]").all()
        shown = [float(each.get_attribute("data-value") or "nan") for each in faults]
        assert shown == [0, audit["tenants"]]
        unlucky_one = served.tenant()  # opens a journal that the audit has not read
        page.reload()
        until_shown(page)
        card = page.locator(".card").filter(has_text="Last audit")
        assert served.admin.get("/admin/integrity").json()["entries"] > audit["entries"]
        expect(card.locator(".label-warn").last).to_contain_text(f"in {audit['entries']} of")
        page.get_by_role("button", name="Audit now").click()
        expect(card.locator(".label-warn")).to_have_count(0)
        assert unlucky_one.http.get("/budget/integrity").json()["last_audit"]["entries"] == 1


def test_a_statement_is_a_page_that_prints(served: WithAdminPort, browser: Browser) -> None:
    tenant_with_history(served, "audited", [Past(HOUR_MS, 2.5)], epsilon=50)
    until(lambda: served.admin.get("/admin/tenants/audited/statement").json()["statement"]["spending"] != [])
    with open_page(browser, served.admin_url) as page:
        sign_in(page, served.admin_key, "/dashboard/tenants?tenant=audited")
        page.get_by_role("link", name="Statement to print").click()
        expect(page.get_by_role("heading", name="Statement of audited")).to_be_visible()
        expect(page.get_by_role("row").filter(has_text="sentence_codes").first).to_contain_text("2.5")
        expect(page.get_by_role("heading", name="Record of processing (Article 30 GDPR)")).to_be_visible()
        assert Axe().run(page).response["violations"] == []
        assert page.pdf().startswith(b"%PDF")


def test_integrity_of_many_tenants_is_paged(served: WithAdminPort, tenant: Tenant, browser: Browser) -> None:
    served.tenant()
    with open_page(browser, served.admin_url) as page:
        short = "**/admin/integrity?limit=50"
        page.route(short, lambda route: route.continue_(url=route.request.url.replace("limit=50", "limit=1")))
        sign_in(page, served.admin_key, "/dashboard/integrity")
        expect(page.get_by_role("table", name="The first tenants, 1", exact=True)).to_be_visible()
        page.get_by_role("button", name="More tenants").click()
        count = len(served.admin.get("/admin/integrity").json()["tenants"])
        expect(page.get_by_role("table", name=f"All tenants, {count}", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="More tenants")).to_be_hidden()


def test_each_port_has_the_views_of_its_own_callers(served: WithAdminPort, tenant: Tenant) -> None:
    def statuses(url: str, key: str, *paths: str) -> set[int]:
        with httpx.Client(base_url=url, timeout=60) as client:
            client.post("/dashboard/session", headers={"Authorization": f"Bearer {key}"})
            return {client.get(path).status_code for path in paths}

    assert statuses(served.url, served.admin_key, "/dashboard/jobs") == {200}
    views = [f"/dashboard/{view}" for view in VIEWS]
    assert statuses(served.url, served.admin_key, "/admin/service", *views) == {404}
    assert statuses(served.admin_url, tenant.key, "/dashboard", "/dashboard/headroom") == {404}
    assert statuses(served.admin_url, tenant.key, "/admin/tenants", "/admin/service", "/admin/audit") == {403}


def test_every_operator_view_is_accessible_and_no_string_becomes_markup(
    served: WithAdminPort, tenant: Tenant, browser: Browser
) -> None:
    views = tuple(f"tenants?tenant={tenant.name}" if view == "tenants" else view for view in VIEWS)
    accessible(browser, served.admin_url, served.admin_key, views, lambda _: None)
    harmless(browser, served.admin_url, served.admin_key, [view for view in VIEWS if view != "alerts"])

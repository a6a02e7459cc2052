"""How people use the dashboard in a real browser: by keyboard alone, with filters, with many pages open, until the key
ends; and that no name that somebody has chosen becomes markup."""

from __future__ import annotations

import contextlib
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from alert_kit import until
from browser_kit import Browser, Page, expect, needs_chromium, sign_in, tab_to, until_shown
from gateway_kit import Gateway, Tenant
from history_kit import DAY_MS, HOUR_MS, Past, tenant_with_history
from view_kit import escaped, poisoned, visit, watched

pytestmark = [needs_chromium, pytest.mark.slow("browser")]

VIEWS = ("headroom", "forecast", "spending", "subjects", "bounds", "integrity", "journal")
LIVE = (*VIEWS, "alerts", "what-if", "jobs", "try", "keys", "catalogue")
PAST = (
    Past(10 * DAY_MS, 1, key=0),
    Past(9 * DAY_MS, 2, "clipped_cosine", key=1),
    Past(3 * DAY_MS, 3, key=1, route="v1/embeddings"),
    Past(2 * DAY_MS, 4, end="cancel"),
    Past(DAY_MS, 5, end="expire"),
    *(Past(HOUR_MS - number * 1000, 0.01) for number in range(40)),
)


@pytest.fixture(scope="module")
def owner(real_gateway: Gateway) -> Tenant:
    """Releases of ten days by two keys: more entries than a page of the journal shows."""
    return tenant_with_history(real_gateway, "journal-owner", PAST, epsilon=200, keys=2)


@pytest.fixture(scope="module")
def clinic(real_gateway: Gateway) -> Tenant:
    past = [Past(number * HOUR_MS, 1, subject=f"person {number % 2}") for number in range(1, 5)]
    tenant = tenant_with_history(real_gateway, "journal-clinic", past, epsilon=200, subject_epsilon=8)
    until(lambda: tenant.http.get("/budget/journal-clinic/sentence/subjects").json()["up_to_date"])

    def counted() -> bool:
        spending = tenant.http.get("/budget/journal-clinic/sentence/spending", params={"by": "key"}).json()
        return sum(row["total"]["releases"] for row in spending["rows"]) == len(past)

    until(counted)
    return tenant


def journal(tenant: Tenant, **query: Any) -> list[int]:
    """The numbers of the entries that the API answers, the newest first."""
    found, cursor = [], 0
    while cursor is not None:
        asked = {"order": "newest", "limit": 200, "cursor": cursor} | query
        page = tenant.http.get(f"/budget/{tenant.name}/sentence/journal", params=asked).json()
        found += [each["seq"] for each in page["entries"]]
        cursor = page["next_cursor"]
    return found


def shown(page: Page) -> list[int]:
    """The numbers of the entries of the view."""
    cells = page.locator("main tbody td[data-label=Number] [data-value]")
    return [int(value) for value in cells.evaluate_all("all => all.map((each) => each.dataset.value)")]


def apply(page: Page, tenant: Tenant, filters: dict[str, str], **query: Any) -> None:
    """Set filters in the form; the view then shows what the API answers to the query, in place of other entries."""
    for label, value in filters.items():
        field = page.get_by_label(label, exact=True)
        if label in ("Step", "Order"):
            field.select_option(value)
        else:
            field.fill(value)
    page.get_by_role("button", name="Show").click()
    expected = journal(tenant, **query)
    assert 0 < len(expected) <= 50, filters
    until(lambda: shown(page) == expected, f"{filters} are not shown")


def test_each_filter_of_the_journal(real_gateway: Gateway, owner: Tenant, browser: Browser) -> None:
    entries = owner.http.get(f"/budget/{owner.name}/sentence/journal", params={"limit": 200}).json()["entries"]
    keys = {each["key_id"] for each in entries if each["key_id"]}
    [second] = [key for key in keys if key not in owner.key]
    with watched(browser, real_gateway.url) as (page, _):
        visit(page, owner.key, "/dashboard/journal")
        for step in ("open", "cancel", "expire"):
            apply(page, owner, {"Step": step}, transition=step)
        apply(page, owner, {"Step": "", "API key": second}, key_id=second)
        apply(page, owner, {"API key": "", "Mechanism": "clipped_cosine"}, mechanism="clipped_cosine")
        apply(page, owner, {"Mechanism": "", "Route": "/v1/embeddings"}, route="v1/embeddings")
        # the inputs are of local time, which is that of this machine
        local = "at => new Date(at - new Date(at).getTimezoneOffset() * 60e3).toISOString().slice(0, 19)"
        middle_ms = entries[-1]["at_ms"] // 1000 * 1000 - 2 * HOUR_MS
        first_ms = middle_ms - 4 * DAY_MS
        times = {"Route": "", "From": page.evaluate(local, first_ms), "To": page.evaluate(local, middle_ms)}
        apply(page, owner, times, **{"from": first_ms, "to": middle_ms})
        expect(page).to_have_url(re.compile(f"from={first_ms}&to={middle_ms}"))
        page.reload()
        until_shown(page)
        expected = journal(owner, **{"from": first_ms, "to": middle_ms})
        assert shown(page) == expected, "the address keeps the filters"
        page.get_by_label("Mechanism", exact=True).fill("nothing")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_text("No such entry.")).to_be_visible()
        page.get_by_label("API key", exact=True).fill("not a key")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("alert")).to_contain_text("key_id")


def test_the_journal_of_one_subject(real_gateway: Gateway, clinic: Tenant, browser: Browser) -> None:
    [account, _] = clinic.http.get(f"/budget/{clinic.name}/sentence/subjects").json()["subjects"]
    subject = account["account"].split("/")[2]
    with watched(browser, real_gateway.url) as (page, _):
        visit(page, clinic.key, "/dashboard/journal")
        apply(page, clinic, {"Subject": subject}, subject=subject)
        assert len(shown(page)) == 2


def test_the_dashboard_is_used_by_keyboard_alone(real_gateway: Gateway, real_tenant: Tenant, browser: Browser) -> None:
    with watched(browser, real_gateway.url) as (page, _):
        page.goto("/dashboard")
        tab_to(page, page.get_by_label("API key"))
        page.keyboard.type(real_tenant.key)
        page.keyboard.press("Enter")
        until_shown(page)
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        page.reload()
        until_shown(page)
        tab_to(page, page.get_by_role("link", name="What if"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="What if")).to_be_visible()
        until_shown(page)
        for label, value in (("Epsilon of a document", "2.5"), ("Documents", "4")):
            tab_to(page, page.get_by_label(label, exact=True))
            page.keyboard.press("Control+A")
            page.keyboard.type(value)
        page.keyboard.press("Enter")
        row = page.get_by_role("table", name="What each account pays").get_by_role("row").filter(has_text="/sentence")
        expect(row.locator("td[data-label='Cost, epsilon'] [data-value]")).to_have_attribute("data-value", "10")
        heading = page.get_by_role("table", name="What each account pays").get_by_role("button", name="Account")
        tab_to(page, heading)
        page.keyboard.press("Enter")
        expect(page.get_by_role("columnheader", name="Account")).to_have_attribute("aria-sort", "ascending")
        expect(heading).to_be_focused()
        tab_to(page, page.get_by_role("button", name="Sign out"))
        page.keyboard.press("Enter")
        expect(page.get_by_label("API key")).to_be_visible()
        assert page.evaluate("fetch('/budget').then((answer) => answer.status)") == 401


def test_every_page_ends_with_its_key(real_gateway: Gateway, real_tenant: Tenant, browser: Browser) -> None:
    everybody = real_gateway.with_key(real_tenant, "read", "release", "jobs", "admin")
    with contextlib.ExitStack() as opened:
        pages = {view: opened.enter_context(watched(browser, real_gateway.url))[0] for view in LIVE}
        for view, page in pages.items():
            visit(page, everybody.key, f"/dashboard/{view}")
            assert page.locator("#view").get_attribute("data-view") == view
        real_gateway.revoke(everybody)
        for view, page in pages.items():
            expect(page.locator("form#sign-in")).to_be_visible()
            assert real_tenant.name not in page.content()
            assert urlsplit(page.url).path == f"/dashboard/{view}", "whoever signs in again sees the same view"


@pytest.mark.parametrize("view", VIEWS)
def test_no_chosen_name_becomes_markup(
    real_gateway: Gateway, owner: Tenant, clinic: Tenant, browser: Browser, view: str
) -> None:
    """Ids of accounts and keys, subjects, mechanisms, routes, presets, reasons: each string of each answer."""
    with watched(browser, real_gateway.url) as (page, _):
        poisoned(page, kept=("form_token", "cursor", "next_cursor"))
        key = clinic.key if view in ("subjects", "spending") else owner.key
        visit(page, key, f"/dashboard/{view}")
        expect(page.get_by_role("alert")).to_have_count(0)
        escaped(page)
        if view == "spending":
            for by in ("subject", "route", "key"):
                page.get_by_label("By", exact=True).select_option(by)
                expect(page.get_by_role("table", name=f"by {'API key' if by == 'key' else by}").first).to_be_visible()
                escaped(page)


def test_more_pages_than_a_browser_has_connections(
    real_gateway: Gateway, real_tenant: Tenant, browser: Browser
) -> None:
    """Browsers open six connections to a server. One that nobody sees has no stream, and catches up later."""
    hide = """hidden => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with watched(browser, real_gateway.url) as (first, _):
        sign_in(first, real_tenant.key, "/dashboard/journal")
        entries = first.locator("main tbody tr")
        before = entries.count()
        others = []
        for _ in range(8):
            first.evaluate(hide, True) if not others else others[-1].evaluate(hide, True)
            other = first.context.new_page()
            other.goto("/dashboard/journal")
            until_shown(other)
            others.append(other)
        assert real_tenant.embed(epsilon=1).status_code == 200
        expect(others[-1].locator("main tbody tr")).to_have_count(before + 2)
        assert entries.count() == before
        others[-1].evaluate(hide, True)
        first.evaluate(hide, False)
        expect(entries).to_have_count(before + 2)

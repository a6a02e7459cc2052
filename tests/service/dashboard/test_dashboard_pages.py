"""The dashboard in a real browser: signing in, live updates, the end of a session, the keyboard, many pages."""

import os
import signal
from pathlib import Path

import pytest
from browser_kit import Browser, expect, needs_chromium, open_page, sign_in, tab_to, until_shown
from gateway_kit import LEAN, Gateway, Tenant

pytestmark = needs_chromium


def test_a_wrong_key_does_not_sign_in(real_gateway: Gateway, browser: Browser) -> None:
    with open_page(browser, real_gateway.url) as page:
        page.goto("/dashboard")
        for key in (f"pgw_{'0' * 16}_{'0' * 32}", "schlüssel", "<b>"):
            page.get_by_label("API key").fill(key)
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text("This key is not valid.")
            assert page.get_by_label("API key").input_value() == ""


def test_a_deep_link_survives_signing_in_and_the_back_button(
    real_gateway: Gateway, real_tenant: Tenant, browser: Browser
) -> None:
    with open_page(browser, real_gateway.url) as page:
        sign_in(page, real_tenant.key, f"/dashboard/journal?account={real_tenant.name}/vector")
        expect(page.get_by_label("Account")).to_have_value(f"{real_tenant.name}/vector")
        page.get_by_role("link", name="Headroom").click()
        expect(page.get_by_role("heading", name="Headroom")).to_be_visible()  # the page before is shown, too
        until_shown(page)
        page.go_back()
        until_shown(page)
        expect(page.get_by_label("Account")).to_have_value(f"{real_tenant.name}/vector")


def test_a_release_is_seen_without_reloading(real_gateway: Gateway, real_tenant: Tenant, browser: Browser) -> None:
    with open_page(browser, real_gateway.url) as page:
        sign_in(page, real_tenant.key, f"/dashboard?account={real_tenant.name}/sentence&epsilon=2")
        row = (
            page.get_by_role("row", name="sentence_codes")
            .filter(has_text="/embed/sentdp")
            .or_(page.get_by_role("row", name="/sentdp sentence_codes 2"))
        )
        fits = row.first.locator("[data-value]").last
        expect(fits).to_have_attribute("data-value", "500")
        assert real_tenant.embed(epsilon=4.0).status_code == 200
        expect(fits).to_have_attribute("data-value", "498")


def test_a_page_leaves_when_its_key_is_revoked(real_gateway: Gateway, real_tenant: Tenant, browser: Browser) -> None:
    reader = real_gateway.with_key(real_tenant, "read")
    with open_page(browser, real_gateway.url) as page:
        sign_in(page, reader.key)
        real_gateway.revoke(reader)
        expect(page.get_by_label("API key")).to_be_visible()
        assert real_tenant.name not in page.content()


@pytest.mark.slow("browser")
def test_the_dashboard_is_used_by_keyboard_alone(real_gateway: Gateway, real_tenant: Tenant, browser: Browser) -> None:
    with open_page(browser, real_gateway.url) as page:
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


@pytest.mark.slow("browser")
def test_more_pages_than_a_browser_has_connections(
    real_gateway: Gateway, real_tenant: Tenant, browser: Browser
) -> None:
    """Browsers open six connections to a server. One that nobody sees has no stream, and catches up later."""
    hide = """hidden => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with open_page(browser, real_gateway.url) as first:
        sign_in(first, real_tenant.key, "/dashboard/journal")
        entries = first.locator("main tbody tr")
        before = entries.count()
        last = first
        for _ in range(8):
            last.evaluate(hide, True)
            last = first.context.new_page()
            last.goto("/dashboard/journal")
            until_shown(last)
        assert real_tenant.embed(epsilon=1).status_code == 200
        expect(last.locator("main tbody tr")).to_have_count(before + 2)
        assert entries.count() == before
        last.evaluate(hide, True)
        first.evaluate(hide, False)
        expect(entries).to_have_count(before + 2)


@pytest.mark.slow("outage")
def test_an_outage_of_redis_is_shown_and_ends_by_itself(browser: Browser, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data", LEAN | {"PRIVACY_GATEWAY_REDIS_TIMEOUT_S": "1"})
    try:
        with open_page(browser, gateway.url) as page:
            sign_in(page, gateway.tenant().key)
            expect(page.locator("#live")).to_contain_text("Live, ")
            other = page.context.new_page()
            os.kill(gateway.pid_of("redis-server"), signal.SIGSTOP)
            expect(page.locator("#outage")).to_contain_text("Not live since")
            assert other.goto("/dashboard/forecast").status == 503
            expect(other.get_by_role("heading")).to_have_text("The dashboard is not available")
            os.kill(gateway.pid_of("redis-server"), signal.SIGCONT)
            expect(page.locator("#outage")).to_be_hidden()
            expect(other.get_by_role("heading", name="Forecast")).to_be_visible()
    finally:
        gateway.stop()

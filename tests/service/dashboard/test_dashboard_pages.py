"""The dashboard in a real browser: signing in, live updates, the end of a session."""

from __future__ import annotations

from browser_kit import Browser, expect, needs_chromium, open_page, sign_in, until_shown
from gateway_kit import Gateway, Tenant

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


def test_signing_out_shows_the_page_to_sign_in(real_gateway: Gateway, real_tenant: Tenant, browser: Browser) -> None:
    with open_page(browser, real_gateway.url) as page:
        sign_in(page, real_tenant.key)
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("API key")).to_be_visible()
        page.go_back()
        page.reload()
        assert real_tenant.name not in page.content()

"""What tests of the dashboard's views share: figures of tables, harmful strings, accessibility."""

import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import httpx
from axe_playwright_python.sync_playwright import Axe
from browser_kit import WAIT_MS, open_page, sign_in, until_shown
from playwright.sync_api import Browser, Locator, Page, Route

CANARIES = ("<img src=x onerror=alert(1)>", '"><script>alert(1)</script>', "${7*7}")
CANARY = "".join(CANARIES)
# what the pages decide by; everything else in an answer may be any text
_KEPT = ("status", "job_id", "role", "form_token", "next_cursor", "unit", "transition", "key_id", "cursor")


def figures(table: Locator, row: str) -> list[float]:
    """The exact numbers of a table's row, in the order of its columns."""
    cells = table.get_by_role("row").filter(has_text=row).locator("[data-value]")
    return [float(cell.get_attribute("data-value") or "nan") for cell in cells.all()]


def visit(page: Page, key: str, path: str) -> None:
    """Open a view with a session that was opened without the page to sign in."""
    page.goto("/dashboard")
    url = "{0.scheme}://{0.netloc}".format(urlsplit(page.url))
    answer = httpx.post(f"{url}/dashboard/session", headers={"Authorization": f"Bearer {key}"}, timeout=300)
    page.context.add_cookies([{"name": "pgw_session", "value": answer.cookies["pgw_session"], "url": url}])
    page.goto(path)
    until_shown(page)


def poisoned(page: Page, *, kept: Sequence[str]) -> None:
    """Put the canaries into every string of every answer of the API but members of the names `kept`, whatever the API
    itself would admit. The gateway gets the page's requests without them."""

    def answer(route: Route) -> None:
        found = route.fetch(url=_cleaned(route.request.url), timeout=WAIT_MS)
        content = found.json()
        path = urlsplit(route.request.url).path
        if path != "/dashboard/session":
            content = _poison(content, kept)
        route.fulfill(response=found, body=json.dumps(content))

    def is_answer(url: str) -> bool:
        path = urlsplit(url).path
        return not path.startswith(("/dashboard/static/", "/dashboard/")) and not path.endswith(
            ("/events", "/dashboard")
        )

    page.route(is_answer, answer)
    page.route("**/events", lambda route: route.abort())  # their states would replace what was poisoned


def _poison(value: Any, kept: Sequence[str]) -> Any:
    if isinstance(value, str):
        return value + CANARY
    if isinstance(value, list):
        return [_poison(each, kept) for each in value]
    if isinstance(value, dict):
        return {
            name: each if name in kept and isinstance(each, str) else _poison(each, kept)
            for name, each in value.items()
        }
    return value


def _cleaned(url: str) -> str:
    """An address without the canaries."""
    parts = urlsplit(url)
    path = quote(unquote(parts.path).replace(CANARY, ""))
    query = [(name, value.replace(CANARY, "")) for name, value in parse_qsl(parts.query, keep_blank_values=True)]
    return parts._replace(path=path, query=urlencode(query)).geturl()


def escaped(page: Page) -> None:
    """The canaries are shown, as text: they made no element."""
    assert page.locator("main img, main script").count() == 0, page.url
    assert page.evaluate("document.querySelector('main').textContent.includes('onerror=alert(1)')"), page.url


def harmless(
    browser: Browser,
    url: str,
    key: str,
    views: Sequence[str],
    prepare: Callable[[Page], None] = lambda _: None,
    *,
    kept: Sequence[str] = _KEPT,
) -> None:
    """No string of an answer becomes markup in one of the views."""
    for view in views:
        with open_page(browser, url) as page:
            poisoned(page, kept=kept)
            sign_in(page, key, f"/dashboard/{view}")
            prepare(page)
            escaped(page)


def accessible(browser: Browser, url: str, key: str, views: tuple[str, ...], prepare: Callable[[Page], None]) -> None:
    """Each view in both themes and at both widths: no violation that axe finds, no horizontal scrolling, offline."""
    for dark, width in ((False, 1280), (True, 390)):
        with open_page(browser, url, dark=dark, width=width) as page:
            sign_in(page, key, f"/dashboard/{views[0]}")
            for view in views:
                page.goto(f"/dashboard/{view}")
                until_shown(page)
                prepare(page)
                for theme in ("light", "dark"):
                    page.emulate_media(color_scheme=theme)
                    found = Axe().run(page).response["violations"]
                    assert not found, (view, theme, [(each["id"], each["nodes"][0]["html"]) for each in found])
                wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert wide <= 0, (view, width)
                cut = page.locator(".scroll").evaluate_all(
                    "all => all.some((each) => each.scrollWidth > each.clientWidth)"
                )
                assert not cut, f"a table of {view} is cut off at {width}"

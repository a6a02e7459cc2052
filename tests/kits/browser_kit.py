"""A real browser for the tests of pages: the distribution's Chromium, driven by Playwright."""

import contextlib
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

WAIT_MS = 300_000  # generous, so that a loaded machine does not fail a test
CHROMIUM = shutil.which("chromium")
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync")  # beside those of the driver

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """Chromium without a window."""
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS), timeout=WAIT_MS)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def open_page(browser: Browser, url: str, *, dark: bool = False, width: int = 1280) -> Iterator[Page]:
    """A page in a profile of its own. At the end it has had no error, no script has shown a dialog, and nothing was
    asked of another origin."""
    context = browser.new_context(
        base_url=url, color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900}
    )
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    faults: list[str] = []
    own = (f"{url}/", f"blob:{url}/")
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: faults.extend([request.url] if not request.url.startswith(own) else []))
    try:
        yield page
        page.unroute_all(behavior="ignoreErrors")  # the page may be asking for something at its end
        assert not faults, faults
    finally:
        context.close()


def sign_in(page: Page, key: str, path: str = "/dashboard") -> None:
    """Sign in with a key, at the address of a view, and wait for the view."""
    page.goto(path)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    until_shown(page)


def until_shown(page: Page) -> None:
    """Until the view's script has finished."""
    expect(page.locator("#view")).to_have_attribute("aria-busy", "false")


def tab_to(page: Page, wanted: Locator, *, most: int = 100) -> None:
    """Press Tab until an element has the focus, as a person without a mouse does."""
    for _ in range(most):
        if wanted.evaluate("each => each === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} cannot be reached by the keyboard")


def agree(page: Page, action: str) -> None:
    """Answer the question of a dialog."""
    page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()

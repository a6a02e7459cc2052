"""The views of budgets in a real browser over a real gateway: every figure is that of the API."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alert_kit import until
from browser_kit import needs_chromium, open_page, sign_in, until_shown
from gateway_kit import DOCUMENT, LEAN, Gateway, Tenant
from history_kit import DAY_MS, HOUR_MS, Past, tenant_with_history
from playwright.sync_api import Browser, Page, expect
from view_kit import accessible, visit

pytestmark = [needs_chromium, pytest.mark.slow("browser")]

SETTINGS = LEAN | {"PRIVACY_GATEWAY_SERIES_INTERVAL_S": "0.2"}
PRESET = "minilm-sentdp-eps10"
VIEWS = ("headroom", "forecast", "spending", "bounds", "integrity", "journal")
_ROWS = """caption => {
  const found = [...document.querySelectorAll("table")].find((each) => each.caption.textContent.includes(caption));
  const value = (cell) => [...cell.querySelectorAll("[data-value]")].map((each) => each.dataset.value).join("|");
  return [...found.tBodies[0].rows].map((row) =>
    Object.fromEntries([...row.cells].map((cell) => [cell.dataset.label, value(cell) || cell.textContent])));
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(tmp_path_factory.mktemp("views") / "data", SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def owner(served: Gateway) -> Tenant:
    """Two weeks of releases by two keys, then real ones."""
    past = [
        Past(day * DAY_MS + 2 * HOUR_MS, epsilon=1 + day % 3, mechanism=mechanism, key=day % 2)
        for day in range(1, 15)
        for mechanism in ("sentence_codes", "clipped_cosine")[: 1 + day % 2]
    ]
    past.append(Past(3 * HOUR_MS, epsilon=7, end="cancel"))
    tenant = tenant_with_history(served, "acme", past, epsilon=200, keys=2)
    for epsilon in (1.0, 0.25):
        assert tenant.embed(epsilon=epsilon).status_code == 200
    body = {"model": PRESET, "input": DOCUMENT}
    assert tenant.http.post("/v1/embeddings", json=body).status_code == 200
    until_counted(tenant, "acme/sentence", 24)
    return tenant


@pytest.fixture(scope="module")
def clinic(served: Gateway) -> Tenant:
    """A tenant in subject mode, with seven subjects."""
    past = [Past((9 - number) * HOUR_MS, epsilon=number, subject=f"person {number}") for number in range(1, 8)]
    tenant = tenant_with_history(served, "clinic", past, epsilon=500, subject_epsilon=8)
    assert tenant.embed([{"text": DOCUMENT, "subject": "person 3"}], epsilon=0.5).status_code == 200
    until(lambda: get(tenant, "/budget/clinic/sentence/subjects")["up_to_date"])
    until_counted(tenant, "clinic/sentence", 8)
    return tenant


def get(tenant: Tenant, path: str, **query: Any) -> dict[str, Any]:
    answer = tenant.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def until_counted(tenant: Tenant, account: str, releases: int) -> None:
    """Until the sums over time hold so many releases."""

    def counted() -> bool:
        rows = get(tenant, f"/budget/{account}/spending", by="key")["rows"]
        return sum(row["total"]["releases"] for row in rows) == releases

    until(counted)


def rows_of(page: Page, caption: str) -> list[dict[str, str]]:
    """The rows of a table by the titles of their columns: exact values where a cell has some, else texts."""
    found: list[dict[str, str]] = page.evaluate(_ROWS, caption)
    return found


def numbers(rows: list[dict[str, str]], *titles: str) -> list[tuple[float, ...]]:
    return [tuple(float(row[title]) for title in titles) for row in rows]


def cards(page: Page) -> dict[str, list[float]]:
    """The exact values of each card by its label."""
    found: list[tuple[str, list[str]]] = page.locator(".card").evaluate_all(
        "cards => cards.map((card) => [card.querySelector('.label').textContent,"
        " [...card.querySelectorAll('[data-value]')].map((each) => each.dataset.value)])"
    )
    return {label: [float(value) for value in values] for label, values in found}


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_the_first_screen_says_how_many_documents_fit(
    served: Gateway, browser: Browser, owner: Tenant, width: int, height: int
) -> None:
    answer = get(owner, "/budget/acme/sentence/headroom", epsilon=1)
    rows = {(row["preset"], row["mechanism"]): row["fits"] for row in answer["requests"]}
    with open_page(browser, served.url, width=width) as page:
        page.set_viewport_size({"width": width, "height": height})
        sign_in(page, owner.key)
        answers = page.locator(".card.answer .value")
        values = [int(each.get_attribute("data-value") or "") for each in answers.locator("[data-value]").all()]
        assert values == [rows[None, "sentence_codes"], rows[PRESET, "sentence_codes"]]
        expect(page.locator(".card.answer").first).to_contain_text("used most")
        for card in (*page.locator(".card.answer").all(), page.locator(".card", has_text="Spent in 7 days")):
            box = card.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= height, "without scrolling"
        since = int(time.time() * 1000) - 7 * DAY_MS
        series = get(owner, "/budget/series", **{"unit": "sentence", "class": "tenant", "step": 86400, "from": since})
        points = [(each["points"][0], each["points"][-1]) for each in series["series"]]
        spent = sum(last["committed"]["epsilon"] - first["committed"]["epsilon"] for first, last in points)
        releases = sum(last["releases"] - first["releases"] for first, last in points)
        assert cards(page)["Spent in 7 days"] == [spent, releases]


def test_headroom_shows_every_row_and_what_has_no_price(served: Gateway, browser: Browser, owner: Tenant) -> None:
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/headroom?epsilon=3")
        page.get_by_label("Account", exact=True).select_option("acme/token")
        expect(page.get_by_role("table", name="acme/token")).to_be_visible()
        answer = get(owner, "/budget/acme/token/headroom", epsilon=3)
        shown = rows_of(page, "Requests with one document")
        assert shown[0]["Preset"] == PRESET, "presets come first"
        expected = sorted(
            (f"/{row['endpoint']}", row["mechanism"], row["epsilon"], row["fits"]) for row in answer["requests"]
        )
        found = [
            (row["Endpoint"], row["Mechanism"], float(row["Epsilon"]), int(row["Requests that fit"])) for row in shown
        ]
        assert sorted(found) == expected
        assert {row[0] for row in found} >= {"/embed/sentdp", "/v1/embeddings"}
        for row in answer["unpriced"]:  # without a language model
            expect(page.locator(".notice")).to_contain_text(row["detail"])
        accounts = get(owner, "/budget")["accounts"]
        left = [(each["remaining"]["epsilon"], each["limit"]["epsilon"]) for each in accounts]
        assert numbers(rows_of(page, "Accounts of this tenant"), "Epsilon left", "Limit") == left
        page.reload()  # the address keeps the choice
        until_shown(page)
        expect(page.get_by_label("Account", exact=True)).to_have_value("acme/token")
        expect(page.get_by_label("Epsilon of a document")).to_have_value("3")


def test_the_forecast_has_the_figures_of_the_api(served: Gateway, browser: Browser, owner: Tenant) -> None:
    answer = get(owner, "/budget/acme/sentence/forecast")
    assert answer["reason"] is None
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/forecast")
        expect(page.locator(".chart canvas")).to_be_visible()
        line = [(each["low"], each["middle"], each["high"]) for each in answer["line"]]
        assert numbers(rows_of(page, "Forecast of"), "Low (5 %)", "Middle", "High (95 %)") == line
        shown = cards(page)
        band = answer["per_interval"]
        assert shown["Spent a day"] == [band["middle"], band["low"], band["high"]]
        assert shown["Spent"] == [answer["spent"]["epsilon"], answer["spent"]["exhausted_at"]]
        ends = page.locator(".card time").evaluate_all("all => all.map((each) => each.title)")
        assert len(ends) == 3
        past = numbers(rows_of(page, "in all, at the end"), "Spent")
        assert past == sorted(past)
        assert past[-1] == (owner.committed(),)
        expect(page.get_by_text("This is an estimate, not a bound.")).to_be_visible()


def test_the_forecast_says_that_there_is_too_little_history(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant()
    assert tenant.embed().status_code == 200
    with open_page(browser, served.url) as page:
        visit(page, tenant.key, "/dashboard/forecast")
        expect(page.locator(".notice")).to_contain_text("too little history")


@pytest.mark.parametrize("by", ["mechanism", "route", "key"])
def test_spending_has_the_figures_of_the_api(served: Gateway, browser: Browser, owner: Tenant, by: str) -> None:
    answer = get(owner, "/budget/acme/sentence/spending", by=by)
    with open_page(browser, served.url) as page:
        visit(page, owner.key, f"/dashboard/spending?by={by}")
        expect(page.locator(".chart canvas")).to_be_visible()
        expected = [
            (
                sum(each["epsilon"] for each in row["buckets"]),
                sum(each["releases"] for each in row["buckets"]),
                row["total"]["epsilon"],
                row["total"]["releases"],
            )
            for row in answer["rows"]
        ]
        titles = ("In this time", "Releases in this time", "In all", "Releases in all")
        shown = rows_of(page, "Epsilon of acme/sentence by")
        assert numbers(shown, *titles) == expected
        page.get_by_text("Figures of the chart").click()
        by_time = rows_of(page, "Epsilon spent in each step")
        names = [title for title in by_time[0] if title != "From"]
        assert len(names) == len(answer["rows"])
        for name, row in zip(names, answer["rows"], strict=True):
            steps = [value for (value,) in reversed(numbers(by_time, name)) if value]
            assert steps == [each["epsilon"] for each in row["buckets"]]


def test_spending_sorts_filters_and_keeps_both_in_the_address(served: Gateway, browser: Browser, owner: Tenant) -> None:
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/spending")
        table = page.get_by_role("table", name="Epsilon of acme/sentence by mechanism")
        table.get_by_role("button", name="Mechanism").click()
        assert [row["Mechanism"] for row in rows_of(page, "by mechanism")] == ["clipped_cosine", "sentence_codes"]
        page.get_by_label("Filter").fill("clip")
        expect(table.locator("tbody tr")).to_have_count(1)
        page.get_by_label("Over", exact=True).select_option("hour")
        page.wait_for_url(re.compile("bucket=hour"))
        page.reload()
        until_shown(page)
        expect(page.get_by_label("Filter")).to_have_value("clip")
        expect(page.get_by_label("Over", exact=True)).to_have_value("hour")


def test_spending_by_subject_leads_to_its_journal(served: Gateway, browser: Browser, clinic: Tenant) -> None:
    answer = get(clinic, "/budget/clinic/sentence/spending", by="subject")
    with open_page(browser, served.url) as page:
        visit(page, clinic.key, "/dashboard/spending?by=subject")
        shown = rows_of(page, "by subject")
        assert numbers(shown, "In all") == [(row["total"]["epsilon"],) for row in answer["rows"]]
        page.locator("tbody a").first.click()
        until_shown(page)
        expect(page.get_by_label("Account", exact=True)).to_have_value(answer["rows"][0]["subject"])


def test_the_subjects_near_their_limit(served: Gateway, browser: Browser, clinic: Tenant) -> None:
    with open_page(browser, served.url) as page:
        visit(page, clinic.key, "/dashboard/subjects")
        everyone = get(clinic, "/budget/clinic/sentence/subjects")["subjects"]
        assert numbers(rows_of(page, "Subjects of"), "Epsilon left", "Limit", "Reserved") == [
            (each["remaining"]["epsilon"], each["limit"]["epsilon"], each["reserved"]["epsilon"]) for each in everyone
        ]
        page.get_by_label("Less left than epsilon").fill("4")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("tbody tr")).to_have_count(3)
        assert numbers(rows_of(page, "Subjects of"), "Epsilon left") == [(1,), (2,), (3,)]
        page.reload()
        until_shown(page)
        expect(page.locator("tbody tr")).to_have_count(3)
        page.locator("tbody tr").first.get_by_role("link", name="headroom").click()
        until_shown(page)
        expect(page.get_by_label("Account", exact=True)).to_have_value(everyone[0]["account"])
        expect(page.locator(".card", has_text="Left of")).to_contain_text("1 of 8")


def bounds_of(tenant: Tenant) -> list[tuple[str, str, str, str, str]]:
    """The lines of the API as the view shows them."""
    labels = {"proven": "Proven", "estimate": "Estimate", "none": "No figure"}
    return [
        (
            line["name"].capitalize(),
            labels[line["label"]],
            "–" if line["epsilon"] is None else f"{line['epsilon']:g}",
            "–" if line["delta"] is None else f"{line['delta']:g}",
            line["sentence"],
        )
        for line in get(tenant, f"/budget/{tenant.name}/sentence/bounds")["lines"]
    ]


def shown_bounds(page: Page) -> list[tuple[str, str, str, str, str]]:
    def value(text: str) -> str:
        return text if text == "–" else f"{float(text):g}"

    return [
        (row["By"], row["Label"], value(row["Epsilon"]), value(row["Delta"]), row["What it says"])
        for row in rows_of(page, "promises")
    ]


def test_bounds_say_what_is_proven(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant(epsilon=8, delta=1e-6)
    for epsilon in (0.5, 0.5, 1.0):  # the Edgeworth figure of these is not defined
        assert tenant.embed(epsilon=epsilon).status_code == 200
    with open_page(browser, served.url) as page:
        visit(page, tenant.key, "/dashboard/bounds")
        shown = shown_bounds(page)
        assert shown == bounds_of(tenant)
        assert [line[:2] for line in shown] == [
            ("Limit", "Proven"),
            ("Basic", "Proven"),
            ("Renyi", "Estimate"),
            ("Certificate", "No figure"),
            ("Edgeworth", "No figure"),
        ]
        arms = [(arm["spent"], arm["limit"]) for arm in tenant.account()["arms"]]
        assert numbers(rows_of(page, "The rules of the filter"), "Counted", "Up to") == arms


def test_bounds_of_a_plan_have_a_certificate(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant(epsilon=2, delta=1e-6, plans={"clipped_cosine": 0.5})
    assert tenant.embed(epsilon=0.5, mechanism="clipped_cosine").status_code == 200
    with open_page(browser, served.url) as page:
        visit(page, tenant.key, "/dashboard/bounds")
        assert shown_bounds(page) == bounds_of(tenant)
        [certificate] = [line for line in shown_bounds(page) if line[0] == "Certificate"]
        assert certificate[1] == "Proven"
        releases = tenant.account()["plan"]["releases"]
        names = ("limit", "committed", "reserved", "remaining")
        assert numbers(rows_of(page, "The plan"), "Number") == [(releases[name],) for name in names]


def test_integrity_has_the_figures_of_the_api(served: Gateway, browser: Browser, owner: Tenant) -> None:
    until(lambda: get(owner, "/budget/integrity")["journal"]["unsealed"] == 0)
    with open_page(browser, served.url) as page:
        with page.expect_response("**/budget/integrity") as read:  # other tenants' entries make further seals
            visit(page, owner.key, "/dashboard/integrity")
        answer = read.value.json()
        shown = cards(page)
        journal = answer["journal"]
        assert shown["Entries sealed"] == [journal["sealed"], journal["entries"], 0, journal["seal"]]
        assert shown["Open holds"] == [answer["open_holds"]["number"]]
        assert shown["Last seal"][1] == answer["epoch"]
        expect(page.locator(".card", has_text="Last audit")).to_contain_text("none yet")
        lost = [(each["epsilon"], each["delta"], each["releases"]) for each in answer["spent_without_output"]]
        assert numbers(rows_of(page, "without an output"), "Epsilon", "Delta", "Releases") == lost


def journal_of(tenant: Tenant, account: str, **query: Any) -> list[dict[str, Any]]:
    entries, cursor = [], 0
    while cursor is not None:
        page = get(tenant, f"/budget/{account}/journal", limit=20, cursor=cursor, **query)
        entries += page["entries"]
        cursor = page["next_cursor"]
    return entries


def shown_entries(page: Page) -> list[tuple[int, str, float, float, str]]:
    return [
        (int(row["Number"]), row["Step"], float(row["Epsilon"]), float(row["Delta"]), row["Release"])
        for row in rows_of(page, "Journal of")
    ]


def as_shown(entries: list[dict[str, Any]]) -> list[tuple[int, str, float, float, str]]:
    return [
        (
            each["seq"],
            each["transition"] + (each["reason"] or ""),
            each["amount"]["epsilon"],
            each["amount"]["delta"],
            each["release_id"] or "–",
        )
        for each in entries
    ]


def test_the_journal_is_read_in_pages_the_newest_first(served: Gateway, browser: Browser, owner: Tenant) -> None:
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/journal")
        entries = journal_of(owner, "acme/sentence", order="newest")
        assert len(entries) > 50
        assert shown_entries(page) == as_shown(entries[:50])
        page.get_by_role("button", name="More entries").click()
        expect(page.locator("tbody tr")).to_have_count(len(entries))
        assert shown_entries(page) == as_shown(entries)
        until(lambda: get(owner, "/budget/integrity")["journal"]["unsealed"] == 0)
        page.reload()
        until_shown(page)
        [newest] = get(owner, "/budget/acme/sentence/journal", order="newest", limit=1)["entries"]
        assert rows_of(page, "Journal of")[0]["In the hash chain"] == f"{newest['seal']}|{newest['sha256']}"


def test_the_journal_is_exported_as_it_is_filtered(served: Gateway, browser: Browser, owner: Tenant) -> None:
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/journal?transition=commit&order=oldest")
        entries = journal_of(owner, "acme/sentence", order="oldest", transition="commit")
        lines = [json.loads(line) for line in downloaded(page, "JSON lines").splitlines()]
        cells = list(csv.DictReader(io.StringIO(downloaded(page, "CSV"))))
        for exported in (lines, cells):
            found = [(int(each["seq"]), float(each["epsilon"]), each["sha256"]) for each in exported]
            assert found == [(each["seq"], each["amount"]["epsilon"], each["sha256"]) for each in entries]


def downloaded(page: Page, name: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("link", name=name).click()
    return Path(download.value.path()).read_text()


def test_the_views_are_accessible_and_fit_a_phone(
    served: Gateway, browser: Browser, owner: Tenant, clinic: Tenant
) -> None:
    accessible(browser, served.url, owner.key, VIEWS, lambda _: None)
    accessible(browser, served.url, clinic.key, ("subjects",), lambda _: None)

"""The views of budgets in a real browser over a real gateway: every figure is that of the API."""

import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from alert_kit import until
from browser_kit import needs_chromium, open_page, sign_in, until_shown
from constants_kit import constants
from gateway_kit import DOCUMENT, LEAN, Gateway, Tenant
from history_kit import DAY_MS, HOUR_MS, Past, tenant_with_history
from playwright.sync_api import Browser, Page, expect
from view_kit import accessible, harmless, visit

pytestmark = [needs_chromium, pytest.mark.slow("browser")]

SETTINGS = LEAN | constants({"service.operation.maintenance.SERIES_INTERVAL_S": 0.2})
PRESET = "minilm-sentdp-eps10"
VIEWS = ("headroom", "forecast", "spending", "bounds", "integrity", "journal")
LEFT = {"Epsilon left": "remaining.epsilon", "Limit": "limit.epsilon", "Reserved": "reserved.epsilon"}
AMOUNT = {"Epsilon": "epsilon", "Delta": "delta"}
SPENT = {
    "In this time": lambda row: sum(each["epsilon"] for each in row["buckets"]),
    "Releases in this time": lambda row: sum(each["releases"] for each in row["buckets"]),
    "In all": "total.epsilon",
    "Releases in all": "total.releases",
}
# a view, a table of it, the answer of the API with its rows, and which member of a row is in which column
TABLES: tuple[tuple[str, str, str, str, dict[str, str | Callable[[Any], float]]], ...] = (
    ("headroom", "Accounts of", "/budget", "accounts", LEFT),
    ("forecast", "Forecast of", "forecast", "line", {"Low (5 %)": "low", "Middle": "middle", "High (95 %)": "high"}),
    ("spending", "by mechanism", "spending?by=mechanism", "rows", SPENT),
    ("spending?by=route", "by route", "spending?by=route", "rows", SPENT),
    ("spending?by=key", "by API key", "spending?by=key", "rows", SPENT),
    ("bounds", "promises", "bounds", "lines", AMOUNT),
    ("integrity", "without an output", "/budget/integrity", "spent_without_output", AMOUNT | {"Releases": "releases"}),
    (
        "journal", "Journal of", "journal?order=newest&limit=50", "entries",
        {"Number": "seq", "Epsilon": "amount.epsilon"},
    ),
)  # fmt: skip
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
    answer = tenant.http.get(path, params=query or None)  # {} would take the query of the path away
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
    used = get(owner, "/budget/acme/sentence/headroom")["used"][:2]
    with open_page(browser, served.url, width=width) as page:
        page.set_viewport_size({"width": width, "height": height})
        sign_in(page, owner.key)
        answers = page.locator(".card.answer .value")
        values = [int(each.get_attribute("data-value") or "") for each in answers.locator("[data-value]").all()]
        assert values == [row["fits"] for row in used]
        expect(page.locator(".card.answer").first).to_contain_text(f"{used[0]['releases']} of the last releases")
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


def test_an_exhausted_account_says_so_with_the_next_step(served: Gateway, browser: Browser) -> None:
    tenant = served.with_key(served.tenant(epsilon=2), "read", "release", "admin")
    rule = {"when": {"kind": "budget_used", "share": 0.5}}
    assert tenant.http.put("/alerts/rules/half", json=rule).status_code == 201
    assert [tenant.embed(epsilon=2).status_code for _ in range(2)] == [200, 403]
    until(lambda: get(tenant, "/alerts", status="open")["alerts"])
    planned = served.tenant(epsilon=3, delta=1e-6, plans={"clipped_cosine": 0.5})
    assert planned.embed(epsilon=0.5, mechanism="clipped_cosine").status_code == 200
    with open_page(browser, served.url) as page:
        visit(page, tenant.key, "/dashboard/headroom")
        expect(page.locator("p.notice")).to_contain_text("No more documents with sentence_codes at epsilon 2 fit")
        expect(page.locator("p.notice")).to_contain_text("ask the operator")
        expect(page.get_by_role("link", name="Alerts")).to_contain_text("2 open")
        visit(page, tenant.key, "/dashboard/forecast")
        expect(page.locator(".notice")).to_contain_text("exhausted")
        visit(page, planned.key, "/dashboard/headroom")
        releases = planned.account()["plan"]["releases"]
        label = f"Left of {planned.name}/sentence"
        assert cards(page)[label] == [releases["remaining"], releases["limit"]]


def figures(page: Page, caption: str, *titles: str) -> list[tuple[float | None, ...]]:
    """The numbers of these columns in each row."""
    return [
        tuple(None if row[title] == "–" else float(row[title]) for title in titles) for row in rows_of(page, caption)
    ]


def value_of(row: dict[str, Any], member: str | Callable[[Any], float]) -> Any:
    return reduce(lambda value, name: value[name], member.split("."), row) if isinstance(member, str) else member(row)


def test_every_table_has_the_figures_of_the_api(served: Gateway, browser: Browser, owner: Tenant) -> None:
    with open_page(browser, served.url) as page:
        for view, caption, path, member, columns in TABLES:
            visit(page, owner.key, f"/dashboard/{view}")
            rows = get(owner, urljoin("/budget/acme/sentence/", path))[member]
            assert rows, view
            expected = [tuple(value_of(row, each) for each in columns.values()) for row in rows]
            assert figures(page, caption, *columns) == expected, view


def test_headroom_shows_every_row_and_what_has_no_price(served: Gateway, browser: Browser, owner: Tenant) -> None:
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/headroom?epsilon=3")
        page.get_by_label("Account", exact=True).select_option("acme/token")
        expect(page.get_by_role("table", name="acme/token")).to_be_visible()
        answer = get(owner, "/budget/acme/token/headroom", epsilon=3)
        shown = rows_of(page, "Requests with one document")
        assert shown[0]["Preset"] == PRESET, "presets come first"
        expected = [(f"/{row['endpoint']}", row["epsilon"], row["fits"]) for row in answer["requests"]]
        found = [(row["Endpoint"], float(row["Epsilon"]), int(row["Requests that fit"])) for row in shown]
        assert sorted(found) == sorted(expected)
        for row in answer["unpriced"]:  # without a language model
            expect(page.locator(".notice")).to_contain_text(row["detail"])


def test_the_forecast_is_an_estimate(served: Gateway, browser: Browser, owner: Tenant) -> None:
    answer = get(owner, "/budget/acme/sentence/forecast")
    assert answer["reason"] is None
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/forecast")
        expect(page.locator(".chart canvas")).to_be_visible()
        expect(page.get_by_text("This is an estimate, not a bound.")).to_be_visible()
        shown, band = cards(page), answer["per_interval"]
        assert shown["Spent a day"] == [band["middle"], band["low"], band["high"]]
        assert shown["Spent"] == [answer["spent"]["epsilon"], answer["spent"]["exhausted_at"]]
        assert page.locator(".card time").count() == 3
        past = figures(page, "in all, at the end", "Spent")
        assert (past[-1], past) == ((owner.committed(),), sorted(past))
        new = served.tenant()
        assert new.embed().status_code == 200
        visit(page, new.key, "/dashboard/forecast")
        expect(page.locator(".notice")).to_contain_text("too little history")


def test_the_chart_of_spending_has_a_table_and_a_filter(served: Gateway, browser: Browser, owner: Tenant) -> None:
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/spending")
        expect(page.locator(".chart canvas")).to_be_visible()
        page.get_by_text("Figures of the chart").click()
        for row in get(owner, "/budget/acme/sentence/spending", by="mechanism")["rows"]:
            steps = figures(page, "Epsilon spent in each step", row["mechanism"])
            assert [value for (value,) in reversed(steps) if value] == [each["epsilon"] for each in row["buckets"]]
        page.get_by_label("Filter").fill("clip")
        expect(page.get_by_role("table", name="by mechanism").locator("tbody tr")).to_have_count(1)
        page.get_by_label("Over", exact=True).select_option("hour")
        page.wait_for_url(re.compile("bucket=hour"))


def test_spending_by_subject_leads_to_its_journal(served: Gateway, browser: Browser, clinic: Tenant) -> None:
    rows = get(clinic, "/budget/clinic/sentence/spending", by="subject")["rows"]
    with open_page(browser, served.url) as page:
        visit(page, clinic.key, "/dashboard/spending?by=subject")
        assert figures(page, "by subject", "In all") == [(row["total"]["epsilon"],) for row in rows]
        page.locator("tbody a").first.click()
        until_shown(page)
        expect(page.get_by_label("Account", exact=True)).to_have_value(rows[0]["subject"])


def test_masking_has_the_counts_of_the_api(served: Gateway, browser: Browser, owner: Tenant) -> None:
    text = "Write to maria@example.org or to paul@example.org."
    assert owner.http.post("/sanitize", json={"documents": [{"text": text}]}).status_code == 200
    [row] = until(lambda: get(owner, "/masking/counts")["rows"])
    assert row["finds"]["EMAIL_ADDRESS"] == 2
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/masking")
        finds = list(row["finds"].values())
        assert figures(page, "Finds by type", "Finds") == [(each,) for each in finds]
        assert cards(page) == {"Requests masked": [1], "Finds": [sum(finds)], "Requests refused": [0]}
        assert page.locator("nav .group").all_text_contents() == ["What is left?", "What happened?", "Work"]


def test_the_subjects_near_their_limit(served: Gateway, browser: Browser, clinic: Tenant) -> None:
    everyone = get(clinic, "/budget/clinic/sentence/subjects")["subjects"]
    with open_page(browser, served.url) as page:
        visit(page, clinic.key, "/dashboard/subjects")
        expected = [tuple(value_of(each, member) for member in LEFT.values()) for each in everyone]
        assert figures(page, "Subjects of", *LEFT) == expected
        page.get_by_label("Less left than epsilon").fill("4")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("tbody tr")).to_have_count(3)
        assert figures(page, "Subjects of", "Epsilon left") == [(1,), (2,), (3,)]
        page.locator("tbody tr").first.get_by_role("link", name="headroom").click()
        until_shown(page)
        expect(page.get_by_label("Account", exact=True)).to_have_value(everyone[0]["account"])
        expect(page.locator(".card", has_text="Left of")).to_contain_text("1 of 8")


def test_bounds_say_what_is_proven(served: Gateway, browser: Browser) -> None:
    filtered = served.tenant(epsilon=8, delta=1e-6)
    planned = served.tenant(epsilon=2, delta=1e-6, plans={"clipped_cosine": 0.5})
    assert filtered.embed(epsilon=1).status_code == 200
    assert planned.embed(epsilon=0.5, mechanism="clipped_cosine").status_code == 200
    labels = {"proven": "Proven", "estimate": "Estimate", "none": "No figure"}
    with open_page(browser, served.url) as page:
        for tenant, certificate in ((filtered, "No figure"), (planned, "Proven")):
            visit(page, tenant.key, "/dashboard/bounds")
            shown = [(row["By"], row["Label"], row["What it says"]) for row in rows_of(page, "promises")]
            lines = get(tenant, f"/budget/{tenant.name}/sentence/bounds")["lines"]
            assert shown == [(each["name"].capitalize(), labels[each["label"]], each["sentence"]) for each in lines]
            assert shown[0][:2] == ("Limit", "Proven")
            assert [label for name, label, _ in shown if name == "Certificate"] == [certificate]
            account = tenant.account()
            if tenant is filtered:
                arms = [(arm["spent"], arm["limit"]) for arm in account["arms"]]
                assert figures(page, "The rules of the filter", "Counted", "Up to") == arms
            else:
                releases = account["plan"]["releases"]
                names = ("limit", "committed", "reserved", "remaining")
                assert figures(page, "The plan", "Number") == [(releases[name],) for name in names]


def test_integrity_has_the_figures_of_the_api(served: Gateway, browser: Browser, owner: Tenant) -> None:
    until(lambda: get(owner, "/budget/integrity")["journal"]["unsealed"] == 0)
    with open_page(browser, served.url) as page:
        with page.expect_response("**/budget/integrity") as read:  # other tenants' entries make further seals
            visit(page, owner.key, "/dashboard/integrity")
        answer = read.value.json()
        shown, journal = cards(page), answer["journal"]
        assert shown["Entries sealed"] == [journal["sealed"], journal["entries"], 0, journal["seal"]]
        assert shown["Open holds"] == [answer["open_holds"]["number"]]
        assert shown["Last seal"][1] == answer["epoch"]
        expect(page.locator(".card", has_text="Last audit")).to_contain_text("none yet")


def journal_of(tenant: Tenant, **query: Any) -> list[dict[str, Any]]:
    entries, cursor = [], 0
    while cursor is not None:
        page = get(tenant, f"/budget/{tenant.name}/sentence/journal", **{"limit": 200, "cursor": cursor} | query)
        entries += page["entries"]
        cursor = page["next_cursor"]
    return entries


def numbers_of(page: Page) -> list[int]:
    """The numbers of the entries that the journal shows."""
    cells = page.locator("main tbody td[data-label=Number] [data-value]")
    return [int(value) for value in cells.evaluate_all("all => all.map((each) => each.dataset.value)")]


def test_the_journal_is_read_in_pages_and_exported(served: Gateway, browser: Browser, owner: Tenant) -> None:
    until(lambda: get(owner, "/budget/integrity")["journal"]["unsealed"] == 0)
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/journal")
        entries = journal_of(owner, order="newest")
        assert len(entries) > 50
        newest = entries[0]
        assert rows_of(page, "Journal of")[0]["In the hash chain"] == f"{newest['seal']}|{newest['sha256']}"
        page.get_by_role("button", name="More entries").click()
        expect(page.locator("tbody tr")).to_have_count(len(entries))
        assert numbers_of(page) == [each["seq"] for each in entries]
        page.goto("/dashboard/journal?transition=commit&order=oldest")
        until_shown(page)
        expected = [(each["seq"], each["sha256"]) for each in journal_of(owner, order="oldest", transition="commit")]
        lines = [json.loads(line) for line in downloaded(page, "JSON lines").splitlines()]
        for exported in (lines, csv.DictReader(io.StringIO(downloaded(page, "CSV")))):
            assert [(int(each["seq"]), each["sha256"]) for each in exported] == expected


def downloaded(page: Page, name: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("link", name=name).click()
    return Path(download.value.path()).read_text()


def apply(page: Page, tenant: Tenant, filters: dict[str, Any], **query: Any) -> None:
    """Set filters in the form; the view then shows what the API answers to the query, in place of other entries."""
    for label, value in filters.items():
        field = page.get_by_label(label, exact=True)
        field.select_option(value) if label == "Step" else field.fill(value)
    page.get_by_role("button", name="Show").click()
    expected = [each["seq"] for each in journal_of(tenant, order="newest", **query)]
    assert 0 < len(expected) <= 50, filters
    until(lambda: numbers_of(page) == expected, f"{filters} are not shown")


def test_each_filter_of_the_journal(served: Gateway, owner: Tenant, clinic: Tenant, browser: Browser) -> None:
    entries = journal_of(owner, order="oldest")
    [second] = {each["key_id"] for each in entries if each["key_id"]} - {owner.key_id}
    with open_page(browser, served.url) as page:
        visit(page, owner.key, "/dashboard/journal")
        for step in ("open", "cancel"):
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
        shown = numbers_of(page)
        page.reload()
        until_shown(page)
        assert numbers_of(page) == shown, "the address keeps the filters"
        page.get_by_label("API key", exact=True).fill("not a key")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("alert")).to_contain_text("key_id")
        [first, *_] = get(clinic, "/budget/clinic/sentence/subjects")["subjects"]
        visit(page, clinic.key, "/dashboard/journal")
        subject = first["account"].split("/")[2]
        apply(page, clinic, {"Subject": subject}, subject=subject)


def test_the_views_are_accessible_and_no_string_becomes_markup(
    served: Gateway, browser: Browser, owner: Tenant, clinic: Tenant
) -> None:
    accessible(browser, served.url, owner.key, (*VIEWS, "masking"), lambda _: None)
    accessible(browser, served.url, clinic.key, ("subjects",), lambda _: None)
    kept = ("form_token", "cursor", "next_cursor", "by")  # also ids of keys, steps and states may be any text
    harmless(browser, served.url, owner.key, [*VIEWS, "spending?by=route", "spending?by=key"], kept=kept)
    harmless(browser, served.url, clinic.key, ("subjects", "spending?by=subject"), kept=kept)

"""The views with which a tenant works: what if, jobs, try it, keys, policies and models. A real gateway and browser."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser_kit import Browser, Page, agree, expect, needs_chromium, open_page, sign_in, until_shown
from corpus_kit import rows, submit, until
from gateway_kit import LEAN, Gateway, Tenant
from playwright.sync_api import Request
from synthesis_kit import SHOP, shop_request, shop_rows
from view_kit import CANARIES, CANARY, accessible, escaped, figures, harmless

pytestmark = [needs_chromium, pytest.mark.slow("browser")]

NASTY = (
    "It's \"q\" $HOME `id` $(id) \\n {x} %s é 漢 😀\n\ttab\u2028end !! ${7*7} ' # </script><img src=x onerror=alert(1)>"
)
POLICIES = """
[policies.newsroom.mask]
entities = ["EMAIL_ADDRESS", "PHONE_NUMBER"]

[policies.private-words.mask]
techniques = ["all"]

[policies.private-words.fill]
mode = "metric_dp"
epsilon = 2.5
"""
VIEWS = ("what-if", "jobs", "playground", "try", "keys", "catalogue")


@dataclass
class Owner(Tenant):
    """A tenant whose key has every role, with a job."""

    job: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("work-views")
    (folder / "policies.toml").write_text(POLICIES)
    running = Gateway(folder / "data", LEAN | {"PRIVACY_GATEWAY_POLICIES_FILE": str(folder / "policies.toml")})
    yield running
    running.stop()


def with_every_role(served: Gateway, tenant: Tenant) -> Tenant:
    return served.with_key(tenant, "read", "release", "jobs", "admin")


@pytest.fixture(scope="module")
def owner(served: Gateway) -> Owner:
    tenant = with_every_role(served, served.tenant(delta=1e-6))
    assert tenant.embed(epsilon=4.0).status_code == 200
    table = {
        "columns": [*SHOP["columns"][:2], {"name": CANARIES[0], "kind": "categorical", "categories": list(CANARIES)}],
        "label": SHOP["label"],
    }
    bought = [{**row, CANARIES[0]: CANARIES[number % 3]} for number, row in enumerate(shop_rows(120))]
    for row in bought:
        row.pop("colour")
    body = shop_request(rows=bought, schema=table)
    synthesis = tenant.http.post("/jobs/synthesis", json=body)
    assert synthesis.status_code == 202, synthesis.text
    return Owner(tenant.name, tenant.key, tenant.http, synthesis.json()["job_id"])


@pytest.fixture(scope="module")
def ended(owner: Owner) -> Owner:
    """The owner, once the job has succeeded."""
    assert until(owner.http, owner.job, within_s=300)["status"] == "succeeded"
    return owner


def test_a_job_is_followed_to_its_end(served: Gateway, owner: Owner, browser: Browser) -> None:
    with open_page(browser, served.url) as page:
        with page.expect_request(f"**/jobs/{owner.job}/events") as followed:
            sign_in(page, owner.key, f"/dashboard/jobs?job={owner.job}")
        assert followed.value.resource_type == "eventsource"
        expect(page.locator(".job h2")).to_have_text("synthesis: shop")
        expect(page.locator(".job .state")).to_have_text("succeeded, 100 %")
        expect(page.get_by_role("button", name="Cancel the job")).to_have_count(0)


def test_what_a_job_cost_and_made(served: Gateway, ended: Owner, browser: Browser) -> None:
    job = ended.http.get(f"/jobs/{ended.job}").json()
    with open_page(browser, served.url) as page:
        sign_in(page, ended.key, f"/dashboard/jobs?job={ended.job}")
        spent = page.locator(".job .facts [data-value]").last.get_attribute("data-value")
        assert float(spent or "nan") == job["spent"]["epsilon"]
        page.get_by_role("button", name="Card").click()
        expect(page.locator(".job pre.output")).to_contain_text("Synthetic rows `shop`")
        page.get_by_label("Synthetic rows", exact=True).fill("7")
        page.get_by_role("button", name="Draw rows").click()
        expect(page.locator(".job tbody tr")).to_have_count(7)
        escaped(page)
        with page.expect_download() as made:
            page.get_by_role("button", name="Download rows").click()
        assert len(made.value.path().read_text().splitlines()) == 7
        with page.expect_download() as kept:
            page.get_by_role("link", name="Download the artifact").click()
        assert kept.value.path().read_bytes() == ended.http.get(f"/jobs/{ended.job}/artifact").content
        with page.expect_popup() as opened:
            page.get_by_role("link", name="Report").click()
        expect(opened.value.locator("h1")).to_be_visible()


def test_a_release_is_paused_and_resumed_and_its_files_are_linked(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant(epsilon=1e6)
    query = {"name": "notes", "endpoint": "embed/vector", "body": '{"epsilon": 3}'}
    lines = {"Content-Type": "application/x-ndjson"}
    content = '{"text": "Yes. It is."}\n' * 4000 + "nothing\n"
    job = tenant.http.post("/jobs/release", params=query, content=content, headers=lines).json()["job_id"]
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, f"/dashboard/jobs?job={job}")
        expect(page.locator(".job .facts")).to_contain_text("rows/s")
        expect(page.locator(".job .facts")).to_contain_text("of 4,000")
        page.get_by_role("button", name="Pause the job").click()
        expect(page.locator(".job .state")).to_contain_text("paused")
        page.get_by_role("button", name="Resume the job").click()
        expect(page.locator(".job .state")).to_have_text("succeeded, 100 %")
        with page.expect_download() as made:
            page.get_by_role("link", name="Download the manifest").click()
        assert json.loads(made.value.path().read_text())["left_out"] == [{"row": 4000, "problem": "not-json"}]
    refused = tenant.http.post("/jobs/release", params=query, content="nothing\n", headers=lines).json()["job_id"]
    until(tenant.http, refused)
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, f"/dashboard/jobs?job={refused}")
        expect(page.locator(".job .error")).to_contain_text("Reason: not-json.")


def test_a_job_is_cancelled_when_it_was_asked_for_twice(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant()
    job = submit(tenant.http, rows(3000), name="slow").json()["job_id"]  # it takes minutes
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, f"/dashboard/jobs?job={job}")
        page.get_by_role("button", name="Cancel the job").click()
        agree(page, "Cancel")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert not tenant.http.get(f"/jobs/{job}").json()["cancel_requested"]
        page.get_by_role("button", name="Cancel the job").click()
        agree(page, "Cancel the job")
        expect(page.locator(".job .state")).to_contain_text("cancelled")
    assert until(tenant.http, job, within_s=300)["status"] == "cancelled"


DOCUMENTS = {"documents": [{"text": "-"}] * 3}
WORDS = {"fill": {"mode": "metric_dp", "mechanism": "exponential", "epsilon": 2.5}, "mask": {"techniques": ["all"]}}


@pytest.mark.parametrize(
    ("endpoint", "mechanism", "body"),
    [
        ("embed/sentdp", "clipped_cosine", DOCUMENTS | {"epsilon": 2.5, "mechanism": "clipped_cosine"}),
        ("embed/vector", "privunit", {"texts": ["-"] * 3, "epsilon": 2.5, "mechanism": "privunit"}),
        ("sanitize", "metric_dp exponential", DOCUMENTS | WORDS),
        ("v1/embeddings", "minilm-sentdp-eps10", DOCUMENTS | {"epsilon": 10}),
    ],
)
def test_an_estimate_shows_the_figures_of_the_api(
    served: Gateway, owner: Owner, browser: Browser, endpoint: str, mechanism: str, body: dict[str, Any]
) -> None:
    before = owner.account()
    with open_page(browser, served.url) as page:
        sign_in(page, owner.key, "/dashboard/what-if")
        page.get_by_label("Endpoint").select_option(endpoint)
        page.get_by_label("Mechanism or preset").select_option(mechanism)
        if endpoint != "v1/embeddings":
            page.get_by_label("Epsilon of a document").fill("2.5")
        page.get_by_label("Documents").fill("3")
        page.get_by_role("button", name="Calculate", exact=True).click()
        found = owner.http.post("/budget/estimate", json=body).json()
        # The page opens with the estimate of another form, whose mechanism may be the same.
        fits = page.locator("#estimate .card").nth(1).locator("[data-value]")
        expect(fits).to_have_attribute("data-value", str(found["fits"]))
        for row in found["accounts"]:
            cost, left, after = row["cost"], row["remaining"], row["remaining_after"]
            shown = [cost["epsilon"], cost["delta"], left["epsilon"], after["epsilon"], after["delta"], row["fits"]]
            assert figures(page.locator("#estimate table"), row["account"]) == shown
        page.reload()  # the address has the form
        until_shown(page)
        assert page.get_by_label("Mechanism or preset").input_value() == mechanism
    assert owner.account() == before


def test_what_is_too_much_is_shown_as_refused(served: Gateway, owner: Owner, browser: Browser) -> None:
    with open_page(browser, served.url) as page:
        sign_in(page, owner.key, "/dashboard/what-if?endpoint=embed/sentdp&epsilon=15&documents=100")
        expect(page.locator("#estimate .card").first).to_contain_text("no")
        page.get_by_label("Epsilon of a document").fill("-1")
        page.get_by_role("button", name="Calculate", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("epsilon")
        expect(page.locator("#estimate table")).to_have_count(0)


def test_an_estimate_for_a_subject(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant(subject_epsilon=6.0)
    with open_page(browser, served.url) as page:
        requests: list[Request] = []
        page.on("request", lambda request: requests.append(request))
        sign_in(page, tenant.key, "/dashboard/what-if")
        page.get_by_label("Subject").fill(CANARY)
        page.get_by_label("Epsilon of a document").fill("2")
        page.get_by_role("button", name="Calculate", exact=True).click()
        expect(page.locator("#estimate tbody tr")).to_have_count(4)
        assert figures(page.locator("#estimate table"), f"{tenant.name}/sentence/")[-1] == 3
        assert "onerror" not in page.url
        assert not [each.url for each in requests if "onerror" in each.url]


def test_a_plan_is_calibrated_as_by_the_api(served: Gateway, owner: Owner, browser: Browser) -> None:
    with open_page(browser, served.url) as page:
        sign_in(page, owner.key, "/dashboard/what-if")
        page.get_by_role("button", name="Calculate the plan").click()
        expect(page.locator("#plan table")).to_be_visible()
        target = {"target": {"epsilon": 1, "delta": 1e-6}, "steps": 10, "sampling_rate": 1}
        found = owner.http.post("/accounting/calibrate", json=target).json()
        noise = page.locator("#plan .facts [data-value]").first.get_attribute("data-value")
        assert float(noise or "nan") == found["noise_multiplier"]
        page.get_by_label("Question").select_option("epsilon")
        page.get_by_label("Mechanism", exact=True).select_option("laplace")
        page.get_by_label("Epsilon", exact=True).fill("0.1")
        page.get_by_role("button", name="Calculate the plan").click()
        plan = {"mechanism": {"kind": "laplace", "epsilon": 0.1}, "steps": 10, "delta": 1e-6}
        compared = owner.http.post("/accounting/compare", json=plan).json()["accountants"]
        expect(page.locator("#plan .facts")).to_have_count(0)
        expect(page.locator("#plan tbody tr")).to_have_count(len(compared))
        shown = page.locator("#plan tbody tr td:nth-child(2) [data-value]").all()
        values = [float(each.get_attribute("data-value") or "nan") for each in shown]
        assert values == [line["epsilon"] for line in compared if line["epsilon"] is not None]


def test_a_document_is_tried_at_the_price_that_was_said(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant()
    secret = "The zanzibar walrus signs nothing. It never did."
    with open_page(browser, served.url) as page:
        requests: list[Request] = []
        page.on("request", lambda request: requests.append(request))
        sign_in(page, tenant.key, "/dashboard/try")
        page.get_by_label("Document").fill(secret)
        expect(page.locator("#price")).to_contain_text("This charges the budget and cannot be undone.")
        expect(page.locator("#price")).to_contain_text(f"{tenant.name}/sentence pays epsilon 10 of 1,000 left")
        assert not [each.url for each in requests if "zanzibar" in (each.post_data or "")], "sent before the click"
        page.get_by_role("button", name="Release and charge epsilon 10").click()
        expect(page.locator("#answer")).to_contain_text("384 numbers")
        left = page.locator("#answer .card").nth(2).locator("[data-value]").get_attribute("data-value")
        assert float(left or "nan") == tenant.account()["remaining"]["epsilon"] == 990
        expect(page.locator("#price")).to_contain_text("of 990 left")
        assert [urlsplit(each.url).path for each in requests if "zanzibar" in (each.post_data or "")] == [
            "/embed/sentdp"
        ]
        assert not [each.url for each in requests if "zanzibar" in each.url]
        kept = "JSON.stringify([location.href, history.state, {...localStorage}, {...sessionStorage}])"
        assert "zanzibar" not in page.evaluate(kept)
        page.reload()
        until_shown(page)
        assert page.get_by_label("Document").input_value() == ""


def test_the_playground_shows_what_a_model_sees_and_what_comes_back(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant()
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, "/dashboard/playground")
        shown = page.get_by_role("button", name="Show what a model would see")
        shown.click()
        text = page.get_by_label("Text", exact=True).input_value()
        expect(page.locator("#restored")).to_have_text(text)
        marks = page.locator("#marked mark")
        assert "EMAIL_ADDRESS" in " ".join(marks.all_text_contents())
        assert "maren.holloway@mail.example" not in (page.locator("#model-text").text_content() or "")
        page.get_by_label("What replaces it").select_option("class_marker")
        page.get_by_label("Text", exact=True).fill("Write to 😀 edda@mail.example <img src=x onerror=alert(1)>")
        shown.click()
        expect(page.locator("#model-text")).to_contain_text("[EMAIL_ADDRESS_1]")
        assert (marks.text_content() or "").startswith("edda@mail.example")
        escaped(page)
        page.get_by_label("The model's answer").fill("I wrote to [EMAIL_ADDRESS_1].")
        page.get_by_role("button", name="Put the originals back").click()
        expect(page.locator("#restored")).to_have_text("I wrote to edda@mail.example.")
        page.get_by_label("Policy").select_option("newsroom")
        expect(page.get_by_label("What replaces it")).to_be_hidden()
        shown.click()
        expect(page.locator("#model-text")).to_contain_text("Write to")
        assert tenant.committed() == 0


def test_the_playground_compares_an_embedding_with_and_without_noise(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant()
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, "/dashboard/playground")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        slider, meaning = page.get_by_role("slider", name="Epsilon"), page.locator("#epsilon-meaning")
        expect(slider).to_have_attribute("aria-valuetext", "epsilon 3")
        expect(meaning).to_contain_text("at most 20.1-fold, from a certainty of 50 % to at most 95.3 %")
        without = page.get_by_role("table", name="without noise").locator("tbody tr")
        drawn = page.get_by_role("table", name="with noise").locator("tbody tr")
        before = without.all_inner_texts()
        slider.press("End")
        expect(meaning).to_contain_text("nearly 100 %")
        at_most = drawn.all_inner_texts()
        slider.press("Home")
        expect(slider).to_have_attribute("aria-valuetext", "epsilon 0.5")
        expect(meaning).to_contain_text("at most 62.3 %")
        assert (len(before), without.all_inner_texts()) == (5, before), "it has no noise"
        first = drawn.all_inner_texts()
        assert len(first) == 5
        assert first != at_most
        page.get_by_role("button", name="Draw again").click()
        expect(page.get_by_role("table", name="draw 2 of 8")).to_be_visible()
        assert drawn.all_inner_texts() != first
        page.get_by_label("Sample text").select_option(index=1)
        expect(page.locator("#embedded-text")).to_contain_text("coffee machine")
        assert without.all_inner_texts() != before
        assert asked == []
        assert tenant.committed() == 0


def test_a_refused_document_is_not_sent(served: Gateway, browser: Browser) -> None:
    tenant = served.tenant(epsilon=5.0)
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, "/dashboard/try")
        expect(page.locator("#price")).to_contain_text("The budget does not admit it.")
        expect(page.get_by_role("button", name="Release")).to_be_disabled()


def run_code(page: Page, language: str, tenant: Tenant) -> str:
    """Run the shown code as a person would, and return its output."""
    page.get_by_label("Language").select_option(language)
    code = page.locator("#code").text_content() or ""
    command = ["bash", "-c", code] if language == "curl" else [sys.executable, "-c", code]
    environment = os.environ | {"PRIVACY_GATEWAY_KEY": tenant.key, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_code_sends_the_same_document_at_the_same_price(served: Gateway, browser: Browser) -> None:
    """What is not masked comes back as it was sent, so the answer shows what arrived."""
    tenant = served.tenant()
    with open_page(browser, served.url) as page:
        sign_in(page, tenant.key, "/dashboard/try")
        page.get_by_label("Endpoint").select_option("/sanitize")
        page.get_by_label("Document").fill(NASTY)
        expect(page.locator("#price")).to_contain_text("This charges nothing")
        page.get_by_role("button", name="Send, at no charge").click()
        answer = tenant.http.post("/sanitize", json={"documents": [{"text": NASTY}], "fill": {"mode": "class_marker"}})
        expected = answer.json()["data"][0]["text"]
        assert page.locator("#private-text").text_content() == expected
        escaped(page)
        assert json.loads(run_code(page, "curl", tenant))["data"][0]["text"] == expected
        assert ast.literal_eval(run_code(page, "Python, httpx", tenant))["data"][0]["text"] == expected
        page.get_by_label("Endpoint").select_option("/v1/embeddings")
        page.get_by_role("button", name="Release and charge epsilon 10").click()
        expect(page.locator("#answer")).to_contain_text("384 numbers")
        assert "'epsilon': 980" in run_code(page, "Python, OpenAI SDK", tenant)
        run_code(page, "curl", tenant)
        run_code(page, "Python, httpx", tenant)
        assert tenant.committed() == 40


def test_a_key_is_created_rotated_and_revoked(served: Gateway, browser: Browser) -> None:
    owner = with_every_role(served, served.tenant())
    with open_page(browser, served.url) as page:
        sign_in(page, owner.key, "/dashboard/keys")
        page.get_by_label("Label").fill("made by the page")
        page.get_by_label("release").uncheck()
        page.get_by_label("jobs").uncheck()
        page.get_by_label("Expires after days").fill("2")
        page.get_by_role("button", name="Create", exact=True).click()
        agree(page, "Cancel")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert len(owner.http.get("/keys").json()["keys"]) == 2
        page.get_by_role("button", name="Create", exact=True).click()
        agree(page, "Create the key")
        made = page.locator("#new-key").inner_text()
        found = served.client(made).get("/budget")
        assert found.status_code == 200
        created = next(each for each in owner.http.get("/keys").json()["keys"] if each["label"] == "made by the page")
        assert created["roles"] == ["read"]
        assert created["expires_ms"] - created["created_ms"] == 2 * 86_400_000

        page.get_by_label("A rotated key ends").select_option("0")
        page.get_by_role("button", name=f"Rotate {created['key_id']}").click()
        agree(page, "Rotate the key")
        expect(page.locator("#new-key")).not_to_have_text(made)
        rotated = page.locator("#new-key").inner_text()
        assert served.client(made).get("/budget").status_code == 401
        new = rotated.split("_")[1]
        page.get_by_role("button", name=f"Revoke {new}").click()
        agree(page, "Revoke the key")
        expect(page.get_by_role("row").filter(has_text=new)).to_contain_text("revoked")
        assert served.client(rotated).get("/budget").status_code == 401
        assert rotated not in page.content()


def test_the_operator_sees_shared_jobs(served: Gateway, ended: Owner, browser: Browser) -> None:
    with open_page(browser, served.url) as page:
        sign_in(page, served.admin_key, f"/dashboard/jobs?job={ended.job}")
        assert set(page.locator("nav a").all_inner_texts()) >= {"Service", "Tenants", "Audit log", "Jobs"}
        expect(page.get_by_text("No job that all tenants share.")).to_be_visible()
        assert "shop" not in page.locator("main").inner_text()


def test_policies_and_domains_are_those_of_the_api(served: Gateway, owner: Owner, browser: Browser) -> None:
    with open_page(browser, served.url) as page:
        sign_in(page, owner.key, "/dashboard/catalogue")
        for caption, path, member in (("Policies", "/policies", "policies"), ("Domains", "/domains", "domains")):
            names = [each["name"] for each in owner.http.get(path).json()[member]]
            table = page.get_by_role("table", name=caption, exact=True)
            assert table.locator("tbody td:first-child code").all_inner_texts() == names


def _fill(page: Page) -> None:
    """Open what a view hides at first."""
    if "/try" in page.url:
        page.get_by_label("Endpoint").select_option("/sanitize")
        page.get_by_label("Document").fill("Write to ann@example.org.")
        page.get_by_role("button", name="Send, at no charge").click()
        expect(page.locator("#private-text")).to_be_visible()
        page.get_by_text("Whole answer").click()
    if "/playground" in page.url:
        page.get_by_role("button", name="Show what a model would see").click()
        expect(page.locator("#restored")).to_contain_text("Leeds")
    if "/jobs" in page.url:
        page.get_by_role("button", name="Card").click()
        page.get_by_text("Result", exact=True).click()
    if "/keys" in page.url:
        page.get_by_role("button", name="Create", exact=True).click()
        expect(page.get_by_role("dialog")).to_be_visible()


def test_every_view_is_accessible_and_no_string_becomes_markup(served: Gateway, ended: Owner, browser: Browser) -> None:
    views = tuple(f"jobs?job={ended.job}" if view == "jobs" else view for view in VIEWS)
    accessible(browser, served.url, ended.key, views, _fill)
    harmless(
        browser, served.url, ended.key, [view for view in VIEWS if view not in ("playground", "try")]
    )  # it shows no names

"""Every example runs against a gateway with real workers, and prints what the gateway counts."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from alert_kit import until
from gateway_kit import Gateway, Tenant, clean_environment
from history_kit import DAY_MS, HOUR_MS, Past, tenant_with_history
from model_kit import ModelServer, last_text

EXAMPLES = Path(__file__).parents[2] / "examples"
CHARGE = re.compile(r"charged epsilon (\S+)(?: and delta \S+)? to (\S+): (\S+) of (\S+) is spent")

pytestmark = pytest.mark.slow("documentation")


class Charge(NamedTuple):
    """What an example says about its price: what it charged to which account, and what is spent of which limit."""

    epsilon: float
    account: str
    spent: float
    limit: float


def read_back(body: dict[str, Any]) -> str:
    """An answer that repeats what the model was shown after its task."""
    return "You wrote: " + last_text(body).partition("\n\n")[2]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(read_back) as server:
        yield server


@pytest.fixture(scope="module")
def served(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("examples")
    settings = {"PRIVACY_GATEWAY_UPSTREAMS": model.setting, "PRIVACY_GATEWAY_INFILL": "off"}
    running = Gateway(folder / "data", settings)
    yield running
    running.stop()


def start(
    gateway: Gateway, key: str, script: str, *arguments: str, folder: Path = EXAMPLES
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments], capture_output=True, text=True,
        env=clean_environment() | {"PRIVACY_GATEWAY_URL": gateway.url, "PRIVACY_GATEWAY_API_KEY": key}, cwd=folder,
        timeout=400,
    )  # fmt: skip


def output(gateway: Gateway, tenant: Tenant, script: str, *arguments: str, folder: Path = EXAMPLES) -> str:
    done = start(gateway, tenant.key, script, *arguments, folder=folder)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def charge(printed: str) -> Charge:
    found = CHARGE.search(printed)
    assert found is not None, printed
    return Charge(float(found[1]), found[2], float(found[3]), float(found[4]))


def numbers(printed: str, name: str) -> list[float]:
    """The decimal numbers after `name` in the first line that begins with it."""
    found = re.search(rf"^ *{re.escape(name)} (.*)$", printed, re.MULTILINE)
    assert found is not None, printed
    return [float(each) for each in re.findall(r"-?\d+\.\d+", found[1])]


def test_a_mailbox_is_searched(served: Gateway) -> None:
    tenant = served.tenant()
    printed = output(served, tenant, "semantic_search.py", "--mails", "20")
    assert charge(printed) == (200, f"{tenant.name}/sentence", tenant.committed(), 1000)
    clear, private = numbers(printed, "non-private"), numbers(printed, "epsilon 10")
    assert len(clear) == len(private) == 2
    assert numbers(printed, "by chance")[0] < clear[0]
    assert all(0 <= number <= 1 for number in [*clear, *private])
    assert "Guarantee: pure-dp" in printed


def test_a_classifier_learns_from_private_vectors(served: Gateway, tmp_path: Path) -> None:
    tenant = served.tenant(epsilon=10_000, subject_epsilon=50)
    sizes = ("--train", "40", "--test", "24", "--epsilons", "3", "25")
    printed = output(served, tenant, "private_classifier.py", *sizes, "--plot", str(tmp_path / "curve.png"))

    assert charge(printed) == (64 * 28, f"{tenant.name}/sentence", tenant.committed(), 10_000)
    assert re.search(r"epsilon 3 .* 3\n  epsilon 25 .* 28\n", printed), "what one customer has spent, step by step"
    ranked = {"up_to_date": False, "subjects": []}
    while not ranked["up_to_date"]:  # the order follows what was spent by some seconds
        ranked = tenant.http.get(f"/budget/{tenant.name}/sentence/subjects", params={"limit": 1}).json()
    [poorest] = ranked["subjects"]
    assert poorest["committed"]["epsilon"] == 28
    by_chance = numbers(printed, "always the most frequent queue: accuracy")[0]
    assert numbers(printed, "non-private")[0] > by_chance
    assert len(numbers(printed, "epsilon 25")) == 2
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_tickets_come_back_from_a_model_with_their_names(served: Gateway, model: ModelServer) -> None:
    tenant = served.tenant()
    printed = output(served, tenant, "ticket_drafts.py", "--model", "stub-gpt", "--model-url", f"{model.origin}/v1")
    tickets = [json.loads(line) for line in (EXAMPLES / "data/personal_tickets.jsonl").read_text().splitlines()]
    drafts, _, summary = printed.partition("A summary by a model")
    for ticket in tickets:
        assert f"You wrote: {ticket['text']}" in drafts
        assert ticket["text"] in summary
        assert all(value not in model.seen for value in ticket["personal"] if value != "diabetes")
    assert len(model.bodies) == len(tickets) + 1
    assert "diabetes" in model.seen
    assert re.search(r"\d+ of 24 personal values are gone; guarantee: none\.", printed)
    assert "not found: diabetes" in printed
    assert charge(printed)[:3] == (0, f"{tenant.name}/token", 0)


def test_a_model_learns_from_a_synthetic_table(served: Gateway) -> None:
    tenant = served.tenant(record={"epsilon": 50, "delta": 1e-3})
    printed = output(served, tenant, "synthetic_table.py", "--rows", "400")
    assert charge(printed) == (2, f"{tenant.name}/record", tenant.committed("record"), 50)
    for table in ("real rows", "marginals", "pearl"):
        area, *weights = numbers(printed, table)
        assert 0 <= area <= 1
        assert len(weights) == 3
    assert numbers(printed, "real rows")[0] > 0.8


def test_a_file_is_released_as_one_job(served: Gateway) -> None:
    printed = output(served, served.tenant(), "bulk_release.py", "--tickets", "20")
    assert "20 of 21 rows are released in 1 parts" in printed
    assert "'not-json'" in printed
    assert charge(printed).epsilon == 20


def test_a_classifier_comes_with_its_certificate(served: Gateway, tmp_path: Path) -> None:
    tenant = served.tenant(record={"epsilon": 100, "delta": 1e-3})
    sizes = ("--rows", "40", "--public", "20", "--batch", "20", "--epochs", "1", "--epsilon", "20", "--out", "made")
    refused = start(served, tenant.key, "certified_classifier.py", *sizes, "--cap", "5", folder=tmp_path)
    assert (refused.returncode, tenant.committed("record")) == (1, 0)
    assert "Nothing was sent" in refused.stderr

    printed = output(served, tenant, "certified_classifier.py", *sizes, "--cap", "100", folder=tmp_path)
    paid = charge(printed)
    assert paid.spent == pytest.approx(tenant.committed("record"), rel=1e-5)
    [price] = numbers(printed, f"Asked for: epsilon 20. Price on {tenant.name}/record:")
    assert price == pytest.approx(paid.epsilon, abs=1e-3)
    assert numbers(printed, "add-remove")[0] <= 20 < numbers(printed, "replace-one")[0]
    assert numbers(printed, "Public accuracy")[0] >= 0
    assert (tmp_path / "made/tickets.safetensors").stat().st_size > 0
    assert "add-remove" in (tmp_path / "made/tickets.md").read_text()


def test_a_year_is_planned_and_watched(served: Gateway) -> None:
    past = [Past(number * DAY_MS + 7 * HOUR_MS, 2.0) for number in range(1, 20)]
    tenant = tenant_with_history(served, "years", past, epsilon=100)
    until(lambda: tenant.http.get("/budget/years/sentence/forecast").json()["reason"] is None)
    printed = output(served, tenant, "year_of_budget.py", "--warn-at", "0.4")

    assert charge(printed) == (5, "years/sentence", tenant.committed(), 100)
    assert "38 of 100 is spent; 62 more releases fit,\n  enough for 12 weeks." in printed
    assert "5 vectors, epsilon 5, 0 of the cap is left\n  one more is refused" in printed
    assert re.search(r"the budget ends \d{4}-\d\d-\d\d \(\d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d\)", printed)
    assert re.search(r"basic +proven +epsilon 43\n", printed)
    assert "rule nearly-spent" in printed

    until(lambda: any(one["rule"] == "nearly-spent" for one in tenant.http.get("/alerts").json()["alerts"]))
    again = output(served, tenant, "year_of_budget.py", "--warn-at", "0.4")
    assert re.search(r"open since .*: nearly-spent {'used': 0\.4", again)


def test_a_key_without_the_role_reads_but_stores_no_alert(served: Gateway) -> None:
    printed = output(served, served.tenant(), "year_of_budget.py", "--documents", "2")
    assert "no rule is stored, because this key does not have the role `admin`" in printed
    assert "No forecast: too-little-history" in printed


@pytest.mark.parametrize(("limit", "key", "code"), [(0.5, None, "budget-exhausted"), (50, "pgw_wrong", "401")])
def test_an_example_that_cannot_go_on_says_why(served: Gateway, limit: float, key: str | None, code: str) -> None:
    tenant = served.tenant(record={"epsilon": limit, "delta": 1e-3})
    failed = start(served, key or tenant.key, "certified_classifier.py", "--rows", "40", "--batch", "20")
    assert failed.returncode == 1
    assert code in failed.stderr
    assert "Traceback" not in failed.stderr
    assert tenant.committed("record") == 0


def test_an_example_without_a_key_names_the_variable(served: Gateway) -> None:
    missing = start(served, "", "year_of_budget.py")
    assert missing.returncode == 1
    assert "PRIVACY_GATEWAY_API_KEY" in missing.stderr

"""What a tenant reads of its budget, and what kinds of account it can have."""

import json
import uuid
from pathlib import Path

from command_kit import Finished, run_command
from gateway_kit import DOCUMENT
from inprocess_kit import Gateway


def test_a_plan_admits_its_certified_number_of_releases_and_nothing_else(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1.5, delta=1e-6, plans={"sentence_codes": 0.5})

    account = tenant.account()
    count = account["plan"]["releases"]["limit"]
    assert account["kind"] == "plan"
    assert account["plan"]["mechanism"] == "sentence_codes"
    assert account["plan"]["epsilon"] == 0.5
    assert count >= 3, "never fewer than the plain sum"
    assert 0 < account["limit"]["epsilon"] <= 1.5
    for other in ({"epsilon": 0.4}, {"epsilon": 0.5, "mechanism": "deep_candidate"}):
        refused = tenant.embed(**other)
        assert (refused.status_code, refused.json()["code"]) == (403, "plan-mismatch")
        assert refused.json()["account"] == f"{tenant.name}/sentence"
    assert tenant.embed([{"text": DOCUMENT}] * count, epsilon=0.5).status_code == 200
    refused = tenant.embed(epsilon=0.5)
    assert (refused.status_code, refused.json()["code"]) == (403, "budget-exhausted")
    releases = tenant.account()["plan"]["releases"]
    assert releases == {"limit": count, "committed": count, "reserved": 0, "remaining": 0}


def test_a_plan_is_for_the_noise_that_the_pack_uses(gateway: Gateway) -> None:
    """The general pack adds noise to counts at epsilon 0.1 and to each code at epsilon 8."""

    def count(plan: str, epsilon: float) -> int:
        tenant = gateway.tenant(epsilon=10, delta=1e-6, plans={plan: epsilon})
        assert tenant.embed(epsilon=epsilon).status_code == 200
        return tenant.account()["plan"]["releases"]["limit"]

    assert count("sentence_codes", 0.1) == count("sentence_codes:counts", 0.1) == 685
    assert count("sentence_codes:responses", 0.1) == 346  # what a plan was before counts had a price of their own
    assert count("sentence_codes", 8) == count("sentence_codes:responses", 8) == 1
    other = gateway.tenant(epsilon=10, delta=1e-6, plans={"sentence_codes:counts": 8})
    assert other.embed(epsilon=8).json()["code"] == "plan-mismatch"


def test_the_accountants_tell_what_was_spent_and_how_sure_they_are(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=100)
    assert {line["epsilon"] for line in tenant.account()["accountants"]} == {0.0}
    tenant.embed([{"text": "A. B."}] * 50, epsilon=0.1)
    tenant.embed([{"text": "A. B."}] * 50, epsilon=0.2)
    lines = {line["name"]: line for line in tenant.account()["accountants"]}
    assert (lines["basic"]["epsilon"], lines["basic"]["delta"], lines["basic"]["kind"]) == (15.0, 0.0, "bound")
    assert lines["rdp"]["kind"] == lines["edgeworth"]["kind"] == "estimate"
    assert lines["edgeworth"]["delta"] == 1e-6
    assert 3 < lines["edgeworth"]["epsilon"] < 15
    assert 3 < lines["rdp"]["epsilon"] < 15


def test_terms_that_make_no_account_open_no_tenant(gateway: Gateway) -> None:
    name = f"refused-{uuid.uuid4().hex[:12]}"
    for terms, field in (
        ({"plans": {"clipped_cosine": 11}}, "epsilon"), ({"plans": {"no-such": 1}}, "plans"),
        ({"plans": {"sentence_codes:nothing": 1}}, "plans"), ({"plans": {"clipped_cosine:counts": 1}}, "plans"),
        ({"plans": {"sentence_codes": -1}}, "plans"), ({"plans": {"clipped_cosine": -1}}, "plans"),
        ({"plans": {"clipped_cosine": 1, "deep_candidate": 1}}, "plans"),
        ({"delta": 1e-6, "basic_delta": 1e-5}, "basic_delta"),
    ):  # fmt: skip
        answer = gateway.admin.post("/admin/tenants", json={"name": name, "epsilon": 10, **terms})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
    assert gateway.admin.get(f"/admin/tenants/{name}/budgets").status_code == 404


def test_the_command_opens_plans_and_shows_them(tmp_path: Path) -> None:
    def run(*arguments: str) -> Finished:
        return run_command(tmp_path / "data", *arguments)

    done = run(
        "tenant", "create", "lab", "--epsilon", "10", "--delta", "1e-6", "--plan", "clipped_cosine=0.1",
        "--limit", "vector=3,1e-7,1e-8", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    accounts = {a["unit"]: a for a in json.loads(run("budget", "show", "lab", "--json").stdout)["accounts"]}
    assert accounts["sentence"]["kind"] == accounts["token"]["kind"] == "plan"
    assert accounts["sentence"]["plan"]["releases"]["limit"] > 100, "100 is the plain sum"
    assert accounts["vector"]["limit"] == {"epsilon": 3.0, "delta": 1e-07}
    assert accounts["vector"]["kind"] == accounts["record"]["kind"] == "filter"
    assert "two plans for one unit" in run(
        "tenant", "create", "x", "--epsilon", "10", "--plan", "clipped_cosine=1", "--plan", "deep_candidate=1"
    ).stderr  # fmt: skip

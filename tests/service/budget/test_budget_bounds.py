"""`GET /budget/{account}/bounds` labels what is proven and what is an estimate."""

from typing import Any

from gateway_kit import Tenant, good
from inprocess_kit import Gateway


def lines(tenant: Tenant, unit: str = "sentence") -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in good(tenant.http.get(f"/budget/{tenant.name}/{unit}/bounds"))["lines"]}


def labels(tenant: Tenant, unit: str = "sentence") -> dict[str, str]:
    return {name: line["label"] for name, line in lines(tenant, unit).items()}


def test_a_filter_proves_its_limit_and_the_sum(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=10, delta=1e-6)
    assert list(lines(tenant)) == ["limit", "basic", "renyi", "certificate", "edgeworth"]
    assert set(labels(tenant).values()) == {"proven", "none"}, "nothing was released"
    tenant.embed([{"text": "A. B."}] * 20, epsilon=0.1)
    found = lines(tenant)
    assert labels(tenant) == {
        "limit": "proven", "basic": "proven", "renyi": "estimate", "certificate": "none", "edgeworth": "estimate",
    }  # fmt: skip
    assert (found["limit"]["epsilon"], found["limit"]["delta"]) == (10.0, 1e-6)
    assert (found["basic"]["epsilon"], found["basic"]["delta"]) == (2.0, 0.0)
    accountants = {line["name"]: line["epsilon"] for line in tenant.account()["accountants"]}
    assert found["renyi"]["epsilon"] == accountants["rdp"]
    assert found["edgeworth"]["epsilon"] == accountants["edgeworth"]
    starts = {"proven": "Proven: ", "estimate": "An estimate: ", "none": "No value: "}
    assert all(line["sentence"].startswith(starts[line["label"]]) for line in found.values())


def test_a_plan_has_a_certificate(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=3, delta=1e-6, plans={"clipped_cosine": 0.5})
    found = lines(tenant)["certificate"]
    limit = tenant.account()["limit"]
    assert (found["label"], found["epsilon"], found["delta"]) == ("proven", limit["epsilon"], limit["delta"])


def test_epsilon_per_distance_has_no_other_accountant(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=10, delta=1e-6)
    assert labels(tenant, "vector") == {
        "limit": "proven", "basic": "proven", "renyi": "none", "certificate": "none", "edgeworth": "none",
    }  # fmt: skip


def test_a_quota_over_all_subjects_is_no_guarantee(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=100, subject_epsilon=10)
    assert tenant.embed([{"text": "A. B.", "subject": "p1"}], epsilon=1).status_code == 200
    assert lines(tenant)["limit"]["label"] == "none"
    assert lines(tenant)["limit"]["epsilon"] is None
    accounts = tenant.http.get("/budget").json()["accounts"]
    [own] = [one["account"] for one in accounts if one["unit"] == "sentence" and "subject_hash" in one]
    assert lines(tenant, own.partition("/")[2])["limit"]["epsilon"] == 10.0

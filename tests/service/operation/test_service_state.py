"""`GET /admin/service`: the figures of the metrics, for the operator alone."""

from typing import Any

from gateway_kit import Tenant, good
from inprocess_kit import Gateway

from service.operation.endpoints import Times


def state(gateway: Gateway) -> dict[str, Any]:
    return good(gateway.admin.get("/admin/service"))


def row(rows: list[dict[str, Any]], **members: str) -> dict[str, Any]:
    found = [each for each in rows if members.items() <= each.items()]
    assert len(found) == 1, found
    return found[0]


def test_requests_errors_and_batches_are_counted(gateway: Gateway, tenant: Tenant) -> None:
    assert tenant.embed().status_code == 200
    before = state(gateway)
    assert tenant.embed().status_code == 200
    assert tenant.embed(epsilon=-1).status_code == 422
    after = state(gateway)
    assert after["at_ms"] >= before["at_ms"] >= before["started_ms"]

    def grown(name: str, get: Any, **members: str) -> int:
        return get(row(after[name], **members)) - get(row(before[name], **members))

    assert grown("requests", lambda found: found["statuses"]["200"], route="/embed/sentdp") >= 1
    assert grown("requests", lambda found: found["seconds"]["count"], route="/embed/sentdp") >= 2
    assert row(after["problems"], code="invalid-input")["count"] >= 1
    worker = row(after["workers"], role="embed")
    assert (worker["ready"], worker["stage"]) == (True, "ready")
    assert after["ledger"]["durable"] is True


def test_no_tenant_is_named(gateway: Gateway, tenant: Tenant) -> None:
    assert tenant.embed().status_code == 200
    assert tenant.name not in gateway.admin.get("/admin/service").text


def test_tenants_do_not_see_the_service(tenant: Tenant, gateway: Gateway) -> None:
    assert tenant.http.get("/admin/service").status_code == 403
    assert gateway.anyone.get("/admin/service").status_code == 401


def test_a_quantile_is_bounded_by_the_end_of_its_bucket() -> None:
    infinite = float("inf")
    for buckets, share, expected in (
        ({0.1: 0, 0.5: 3, 1.0: 4, infinite: 4}, 0.5, 0.5), ({0.1: 0, 0.5: 3, 1.0: 4, infinite: 4}, 0.99, 1.0),
        ({0.1: 4, infinite: 4}, 0.5, 0.1), ({0.1: 1, infinite: 4}, 0.5, None), ({0.1: 0, infinite: 0}, 0.5, None),
    ):  # fmt: skip
        assert Times(count=buckets[infinite], buckets=buckets).at_most(share) == expected

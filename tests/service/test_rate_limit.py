"""Requests a minute for each tenant: counted before anything is charged, and refilled as time passes."""

import asyncio
from pathlib import Path

import pytest
from gateway_kit import LEAN
from inprocess_kit import Gateway, module_gateway, opened_gateway
from redis_kit import running_server
from starlette.exceptions import HTTPException

from service.admission import RateLimit

limited = module_gateway(RATE_LIMIT_PER_MINUTE="3")


def test_a_request_above_the_rate_is_refused_and_costs_nothing(limited: Gateway) -> None:
    tenant, other = limited.tenant(), limited.tenant()
    answers = [tenant.embed() for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["ratelimit"].split(";")[1] for answer in answers] == ["r=2", "r=1", "r=0", "r=0"]
    assert answers[3].json()["code"] == "rate-limited"
    assert int(answers[3].headers["retry-after"]) > 0
    assert limited.admin.get(f"/admin/tenants/{tenant.name}/budgets").json()["accounts"][1]["committed"] == {
        "epsilon": 3.0,
        "delta": 0.0,
    }
    assert other.embed().status_code == 200


def take(limit: RateLimit, tenant: str) -> dict[str, str]:
    return asyncio.run(limit.take(tenant))


def test_the_rate_refills_and_is_never_above_its_limit() -> None:
    now = 0.0
    limit = RateLimit(2, clock=lambda: now)
    for _ in range(2):
        take(limit, "acme")
    with pytest.raises(HTTPException) as refused:
        take(limit, "acme")
    assert (refused.value.status_code, (refused.value.headers or {})["Retry-After"]) == (429, "30")

    now = 30.0
    take(limit, "acme")
    now = 3600.0
    for _ in range(2):
        take(limit, "acme")
    with pytest.raises(HTTPException):
        take(limit, "acme")


def test_gateways_on_one_ledger_share_the_rate(tmp_path: Path) -> None:
    own = {"MASTER_KEY": "33" * 32, "RATE_LIMIT_PER_MINUTE": "6", "STORE_URL": f"file://{tmp_path}/store"}
    with running_server(tmp_path / "redis") as server:
        base = LEAN | {"REDIS_URL": server.url}
        with opened_gateway(tmp_path / "one", base, **own) as one, opened_gateway(tmp_path / "two", base, **own) as two:
            tenant = one.tenant()
            callers = [tenant, two.reconnected(tenant)]
            statuses = [callers[number % 2].http.get("/budget").status_code for number in range(20)]
    # the limit, what is refilled meanwhile, and the credit of the second gateway
    assert 6 <= statuses.count(200) < 20
    assert statuses[-1] == 429
    assert statuses.count(200) + statuses.count(429) == 20

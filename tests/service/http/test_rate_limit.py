"""Requests a minute for each tenant: counted before anything is charged, and refilled as time passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gateway_kit import LEAN
from inprocess_kit import Gateway
from starlette.exceptions import HTTPException

from service.http.rate_limit import RateLimit


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    settings = LEAN | {"PRIVACY_GATEWAY_RATE_LIMIT_PER_MINUTE": "3"}
    running = Gateway(tmp_path_factory.mktemp("limited") / "data", settings)
    yield running
    running.stop()


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


def test_the_rate_refills_and_is_never_above_its_limit() -> None:
    now = 0.0
    limit = RateLimit(2, clock=lambda: now)
    for _ in range(2):
        limit.take("acme")
    with pytest.raises(HTTPException) as refused:
        limit.take("acme")
    assert (refused.value.status_code, (refused.value.headers or {})["Retry-After"]) == (429, "30")

    now = 30.0
    limit.take("acme")
    now = 3600.0
    for _ in range(2):
        limit.take("acme")
    with pytest.raises(HTTPException):
        limit.take("acme")

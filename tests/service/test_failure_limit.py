"""Failed authentications are limited by address. A valid key is accepted all the same."""

import asyncio

from inprocess_kit import Gateway, module_gateway

from service.admission import FailureLimit

WRONG = f"pgw_{'0' * 16}_{'0' * 32}"


guarded = module_gateway(AUTH_FAILURES_PER_MINUTE="3")


def failures(gateway: Gateway) -> dict[str, float]:
    lines = [line for line in gateway.anyone.get("/metrics").text.splitlines() if "auth_failures_total{" in line]
    return {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in lines}


def test_too_many_wrong_keys_get_429_and_a_valid_key_still_passes(guarded: Gateway) -> None:
    tenant = guarded.tenant()
    before = failures(guarded)
    answers = [guarded.client(WRONG).get("/budget") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
    assert answers[4].json()["code"] == "rate-limited"
    assert int(answers[4].headers["retry-after"]) > 0
    assert tenant.http.get("/budget").status_code == 200
    assert guarded.admin.get("/admin/tenants").status_code == 200
    assert guarded.anyone.get("/budget").status_code == 401, "no key is no attempt"
    after = failures(guarded)
    assert {reason: after[reason] - before.get(reason, 0) for reason in after} == {
        "wrong": 3,
        "limited": 2,
        "missing": 1,
    }


def failed(limit: FailureLimit, address: str) -> int | None:
    return asyncio.run(limit.failed(address))


def test_each_address_has_its_own_limit_which_refills() -> None:
    now = 0.0
    limit = FailureLimit(2, clock=lambda: now)
    assert [failed(limit, "192.0.2.1") for _ in range(3)] == [None, None, 30]
    assert failed(limit, "192.0.2.2") is None
    assert [failed(limit, f"2001:db8::{host}") for host in range(3)] == [None, None, 30], "one network"
    assert failed(limit, "2001:db8:0:1::1") is None
    assert [failed(limit, f"::ffff:192.0.2.{host}") for host in (1, 3, 4, 5)] == [30, None, None, None], "of IPv4"
    now = 30.0
    assert [failed(limit, "192.0.2.1") for _ in range(2)] == [None, 30]
    assert [failed(FailureLimit(0), "192.0.2.1") for _ in range(100)] == [None] * 100

"""`/accounting` over HTTP: shapes, labels, refusals, and a deadline that holds."""

import asyncio
import signal
import subprocess
import sys
from typing import Any

import httpx
import pytest
from alert_kit import until
from gateway_kit import Tenant, command_line

from core.accounting.plans import Kind, SubsampledGaussian
from core.errors import CalculationTimeout, QueueFull, TenantLimitReached
from service.accounting import calculations
from service.accounting.calculations import Calculations

STEP = {"kind": "subsampled_gaussian", "sampling_rate": 0.01, "noise_multiplier": 0.8}


def compare(tenant: Tenant, **fields: Any) -> httpx.Response:
    return tenant.http.post("/accounting/compare", json={"mechanism": STEP, "steps": 1000, "delta": 1e-5} | fields)


def calibrate(tenant: Tenant, **fields: Any) -> httpx.Response:
    body = {"target": {"epsilon": 3, "delta": 1e-5}, "sampling_rate": 0.01} | fields
    return tenant.http.post("/accounting/calibrate", json=body)


def test_every_accountant_says_what_it_claims(tenant: Tenant) -> None:
    answer = compare(tenant)
    assert answer.status_code == 200, answer.text
    rows = {(row["name"], row.get("order")): row for row in answer.json()["accountants"]}
    assert rows["rdp", None]["epsilon"] == pytest.approx(3.696, abs=1e-3)
    assert rows["pld", None]["epsilon"] == pytest.approx(3.141, abs=1e-3)
    assert {rows[name, None]["kind"] for name in ("basic", "rdp", "pld")} == {"bound"}
    first = rows["edgeworth", 1]
    assert first["kind"] == "estimate"
    assert first["directions"]["remove"] == pytest.approx(3.001, abs=1e-3)
    assert first["epsilon"] == max(first["directions"].values())
    assert first["interval"] == "vacuous"
    assert "certify" in first["note"]
    assert tenant.committed() == 0


def test_the_other_mechanisms(tenant: Tenant) -> None:
    for mechanism, steps, exact in [
        ({"kind": "gaussian", "noise_multiplier": 3.730631634944469}, 1, 1.0),
        ({"kind": "pure", "epsilon": 0.1}, 1000, 17.7871),
        ({"kind": "laplace", "epsilon": 0.5}, 1, 0.5),
    ]:
        answer = compare(tenant, mechanism=mechanism, steps=steps)
        assert answer.status_code == 200, answer.text
        pld = next(row for row in answer.json()["accountants"] if row["name"] == "pld")
        assert pld["epsilon"] == pytest.approx(exact, abs=1e-3)


def test_noise_for_a_target_and_back(tenant: Tenant) -> None:
    found = calibrate(tenant, steps=895).json()
    assert found["certificate"]["epsilon"] <= 3
    assert found["noise_multiplier"] == pytest.approx(0.8, abs=1e-3)
    pld = next(row for row in found["accountants"] if row["name"] == "pld")
    assert pld["epsilon"] == pytest.approx(found["certificate"]["epsilon"], abs=1e-9)
    assert calibrate(tenant, noise_multiplier=0.8).json()["steps"] == 895


def test_random_allocation_is_certified_for_whole_epochs(tenant: Tenant) -> None:
    found = calibrate(tenant, sampling_rate=1.0, epoch_steps=10, steps=20).json()
    assert 2.99 < found["certificate"]["epsilon"] <= 3
    plan = {"kind": "random_allocation", "epoch_steps": 10, "noise_multiplier": found["noise_multiplier"]}
    for adjacency, low, high in [("add-remove", 2.9, 3.0), ("replace-one", 3.0, 6.0)]:
        lines = compare(tenant, mechanism=plan | {"adjacency": adjacency}, steps=20).json()["accountants"]
        kinds = {line["name"]: line["kind"] for line in lines}
        assert (kinds["pld"], kinds["rdp"], kinds["edgeworth"]) == ("bound", "vacuous", "vacuous")
        assert low < next(line["epsilon"] for line in lines if line["name"] == "pld") <= high
    for refused, member in [
        (compare(tenant, mechanism=plan, steps=15), "steps"),
        (
            compare(tenant, mechanism=plan | {"epoch_steps": 0}, steps=20),
            "body.mechanism.random_allocation.epoch_steps",
        ),
        (calibrate(tenant, sampling_rate=1.0, epoch_steps=10, steps=15), "steps"),
        (calibrate(tenant, epoch_steps=10, steps=20), "body"),
        (calibrate(tenant, sampling_rate=1.0, epoch_steps=10, noise_multiplier=1.0), "body"),
    ]:
        assert refused.status_code == 422
        assert [error["field"] for error in refused.json()["errors"]] == [member]


def test_what_cannot_be_computed_is_refused(tenant: Tenant) -> None:
    for fields in [
        {"steps": 0}, {"steps": 1.5}, {"delta": 0.0}, {"delta": 1.0}, {"mechanism": STEP | {"sampling_rate": 2.0}},
        {"mechanism": STEP | {"noise_multiplier": 0.0}}, {"mechanism": STEP | {"secret": 1}},
        {"mechanism": {"kind": "other"}}, {"unknown": 1},
    ]:  # fmt: skip
        assert compare(tenant, **fields).status_code == 422


def test_a_calibration_has_one_unknown(tenant: Tenant) -> None:
    assert calibrate(tenant).status_code == 422
    assert calibrate(tenant, steps=10, noise_multiplier=1.0).status_code == 422
    refused = calibrate(tenant, steps=10, target={"epsilon": 0.0, "delta": 1e-5})
    assert (refused.status_code, refused.json()["code"]) == (422, "out-of-range")


@pytest.mark.usefixtures("processes")
def test_the_deadline_and_the_queue_hold() -> None:
    slow = SubsampledGaussian(0.5, 1.0)

    async def main() -> None:
        pool = Calculations(workers=1, queue_max=1, timeout_s=0.2)
        try:
            first = asyncio.create_task(pool.run("compare", slow, 10**7, 1e-5, tenant="tenant"))
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                await pool.run("compare", slow, 1, 1e-5, tenant="tenant")
            with pytest.raises(CalculationTimeout):
                await first
        finally:
            pool.close()

    asyncio.run(main())


@pytest.mark.usefixtures("processes")
def test_one_tenant_leaves_a_worker_and_places_to_others() -> None:
    slow, fast = SubsampledGaussian(0.5, 1.0), SubsampledGaussian(0.1, 1.0)

    async def main() -> None:
        pool = Calculations(workers=2, queue_max=32, timeout_s=300, tenant_share=0.5)
        try:
            greedy = [asyncio.create_task(pool.run("compare", slow, 10**7, 1e-5, tenant="greedy")) for _ in range(33)]
            await asyncio.sleep(0)
            refused = [call for call in greedy if call.done()]
            assert len(refused) == 33 - 16
            for call in refused:
                with pytest.raises(TenantLimitReached):
                    call.result()
            assert await pool.run("compare", fast, 1, 1e-5, tenant="modest")
            assert sum(call.done() for call in greedy) <= len(refused) + 2
            for call in greedy:
                call.cancel()
        finally:
            pool.close()

    asyncio.run(main())


@pytest.mark.usefixtures("processes")
def test_a_certificate_that_takes_too_long_costs_no_other_answer() -> None:
    slow = SubsampledGaussian(1e-6, 50.0)

    async def main() -> Any:
        pool = Calculations(workers=1, queue_max=1, timeout_s=300)
        try:
            await pool.run(
                "compare", SubsampledGaussian(0.1, 1.0), 1, 1e-5, tenant="tenant"
            )  # the worker has loaded its libraries
            pool._timeout_s = 10
            return await pool.run("compare", slow, 10**7, 1e-12, tenant="tenant")
        finally:
            pool.close()

    lines = {line.name: line.result for line in asyncio.run(main())}
    assert lines["pld"].kind is Kind.VACUOUS
    assert lines["rdp"].kind is Kind.BOUND


def does_not_converge(*_: object) -> None:
    raise RuntimeError  # as scipy does


@pytest.mark.usefixtures("processes")
def test_a_calculation_that_fails_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        pool = Calculations(workers=1, queue_max=1, timeout_s=300)
        try:
            monkeypatch.setattr(calculations, "_work", does_not_converge)
            with pytest.raises(RuntimeError):
                await pool.run("compare", tenant="tenant")
            assert pool._pool is not None
        finally:
            pool.close()

    asyncio.run(main())


@pytest.mark.slow("crash")
def test_a_killed_gateway_leaves_no_calculation_behind() -> None:
    """The gateway prints the process ids of its pool before it is killed."""
    program = """
import asyncio, multiprocessing, os, signal
from core.accounting.plans import SubsampledGaussian
from service.accounting.calculations import Calculations

if __name__ == "__main__":
    pool = Calculations(workers=1, queue_max=1, timeout_s=60)
    asyncio.run(pool.run("compare", SubsampledGaussian(0.1, 1.0), 1, 1e-5, tenant="tenant"))
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (worker,) = map(int, killed.stdout.split())
    until(lambda: "spawn_main" not in command_line(worker))

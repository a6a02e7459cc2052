"""The alerts of deploy/alerts.yml on budgets, by promtool, and the metrics that they read."""

import shutil
import subprocess
from pathlib import Path

import pytest
from alert_kit import until
from inprocess_kit import Gateway, module_gateway

ROOT = Path(__file__).parents[3]
PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
@pytest.mark.usefixtures("processes")
def test_budgets_alert_at_each_stage(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    shutil.copy(ROOT / "deploy" / "alerts.yml", tmp_path)
    shutil.copy(Path(__file__).with_name("alerts_test.yml"), tmp_path)
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run([PROMTOOL, *command], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr


measured = module_gateway(
    changes={
        "service.operation.maintenance.BUDGET_METRICS_INTERVAL_S": 0.1,
        "service.operation.maintenance.BUDGET_METRICS_MAX": 2,
    }
)


def shares(gateway: Gateway) -> dict[str, float]:
    """Of the tenants of this test: all gateways of a process share their metrics."""
    lines = gateway.anyone.get("/metrics").text.splitlines()
    return {
        line.partition("{")[2].partition("}")[0]: float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith('gateway_budget_used_share{tenant="metrics-')
    }


def test_the_fullest_budgets_are_measured_and_no_others(measured: Gateway) -> None:
    tenants = [measured.tenant(f"metrics-{name}", epsilon=10) for name in ("a", "b", "c")]
    assert shares(measured) == {}
    assert tenants[0].embed(epsilon=2).status_code == 200
    units = ("sentence", "token")
    until(lambda: shares(measured) == {f'tenant="metrics-a",unit="{unit}"': 0.2 for unit in units})
    assert tenants[1].embed(epsilon=10).status_code == 200
    until(lambda: shares(measured) == {f'tenant="metrics-b",unit="{unit}"': 1.0 for unit in units})
    until(lambda: "gateway_budgets_exhausted 2.0" in measured.anyone.get("/metrics").text.splitlines())

"""The dashboards of deploy/grafana: Grafana's schema, the metrics that the gateway has, and queries that parse."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client import REGISTRY
from prometheus_client.metrics_core import Metric

import gpu_workers.engine.task_queue
import service.metrics  # noqa: F401 - registers the metrics of the front end

ROOT = Path(__file__).parents[3]
GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
PROMTOOL = shutil.which("promtool")
# series of a metric by its type
ENDS = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


def series() -> dict[str, set[str]]:
    """The names of all series that the gateway exports, and the labels of each."""
    found: dict[str, set[str]] = {}
    for collector in set(REGISTRY._collector_to_names):
        metric: Metric
        for metric in collector.describe() if hasattr(collector, "describe") else ():
            labels = set(getattr(collector, "_labelnames", ()))
            for end in ENDS.get(metric.type, ("",)):
                found[metric.name + end] = labels | ({"le"} if end == "_bucket" else set())
    return found


def queries(dashboard: dict[str, Any]) -> list[str]:
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [*found, *(variable["query"] for variable in dashboard["templating"]["list"])]


@pytest.fixture(params=DASHBOARDS, ids=lambda path: path.stem)
def dashboard(request: pytest.FixtureRequest) -> dict[str, Any]:
    return json.loads(request.param.read_text())


def lost_members(given: Any, parsed: Any, place: str = "") -> list[str]:
    """The members that a round trip through the schema's types changes."""
    if isinstance(given, dict):
        if not isinstance(parsed, dict):
            return [place]
        return [
            lost
            for name, value in given.items()
            if value is not None
            for lost in lost_members(value, parsed.get(name), f"{place}.{name}")
        ]
    if isinstance(given, list):
        if not isinstance(parsed, list) or len(given) != len(parsed):
            return [place]
        return [
            lost
            for n, pair in enumerate(zip(given, parsed, strict=True))
            for lost in lost_members(*pair, f"{place}.{n}")
        ]
    return [] if given == parsed else [place]


def test_a_dashboard_has_only_members_of_grafanas_schema(dashboard: dict[str, Any]) -> None:
    parsed = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
    assert lost_members(dashboard, parsed) == []


def test_queries_use_metrics_and_labels_that_the_gateway_has(dashboard: dict[str, Any]) -> None:
    assert gpu_workers.engine.task_queue
    exported = series()
    for query in queries(dashboard):
        names = set(re.findall(r"gateway_[a-z_]+", query))
        assert names, query
        assert names <= exported.keys(), query
        used = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(", ")}
        used |= set(re.findall(r"([a-z_]+)=~?\"", query))
        assert used <= set().union(*(exported[name] for name in names)), query


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
@pytest.mark.usefixtures("processes")
def test_queries_parse(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    rules = []
    for path in DASHBOARDS:
        for query in queries(json.loads(path.read_text())):
            if not query.startswith("label_values("):
                plain = query.replace("$__rate_interval", "1m").replace("$tenant", ".*")
                rules.append({"record": f"checked:{len(rules)}", "expr": plain})
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run(
        [PROMTOOL, "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_starts_grafana_with_these_dashboards() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    grafana = compose["services"]["grafana"]
    mounts = dict(entry.split(":")[:2] for entry in grafana["volumes"] if entry.startswith("./"))
    for source in mounts:
        assert (ROOT / source).is_dir(), source
    provider = yaml.safe_load((GRAFANA / "provisioning/dashboards/privacy-gateway.yml").read_text())["providers"][0]
    assert mounts["./deploy/grafana/dashboards"] == provider["options"]["path"]
    assert mounts["./deploy/grafana/provisioning"] == "/etc/grafana/provisioning"  # where Grafana looks
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert home.name in {path.name for path in DASHBOARDS}
    source = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose["services"]
    for path in DASHBOARDS:
        assert {panel["datasource"]["uid"] for panel in json.loads(path.read_text())["panels"]} == {source["uid"]}
    assert all(port.startswith("127.0.0.1:") for port in grafana["ports"])

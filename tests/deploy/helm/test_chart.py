"""The Helm chart renders for every combination of its switches, and the API server would take every manifest."""

import itertools
import re
import tomllib
from pathlib import Path
from typing import Any

import helm_kit
import helm_python
import pytest
import yaml
from helm_kit import CHART, EXAMPLES, VERSIONS, Manifest, Values, errors_of, of_kind, pods, read, render, rendered
from tiers import cells

from service.config.settings import Settings

ROOT = Path(__file__).parents[3]
ANYWHERE = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [443]}]
STORE = {
    "storage": {"objectStore": {"url": "s3://bucket/prefix"}},
    "networkPolicy": {"egress": {"objectStore": ANYWHERE}},
}
EXTERNAL = {
    "redis": {"mode": "external", "external": {"secret": "ledger"}},
    "networkPolicy": {"egress": {"redis": ANYWHERE}},
}
RAY = {
    "ray": {"enabled": True, "worker": {"gpus": 1}},
    "networkPolicy": {"egress": {"clusterApi": [{"to": [{"ipBlock": {"cidr": "10.1.0.1/32"}}], "ports": [6443]}]}},
}
MONITORING = {"monitoring": {name: {"enabled": True} for name in ("serviceMonitor", "alertRules", "dashboards")}}
PEERS = {"networkPolicy": {"clients": [{"podSelector": {}}], "operators": [{"namespaceSelector": {}}]}}


def merged(*values: Values) -> Values:
    result: Values = {}
    for each in values:
        for name, value in each.items():
            both = isinstance(value, dict) and isinstance(result.get(name), dict)
            result[name] = merged(result[name], value) if both else value
    return result


SWITCHES: dict[str, Values] = {
    "external-redis": EXTERNAL, "object-store": STORE, "gpus": {"gateway": {"gpus": 2, "runtimeClassName": "nvidia"}},
    "no-policies": {"networkPolicy": {"enabled": False}}, "peers": PEERS, "monitoring": MONITORING,
    "ingress": {"ingress": {"enabled": True, "host": "gateway.example.com"}},
    "no-budget": {"disruptionBudget": {"enabled": False}}, "ray": merged(STORE, RAY),
}  # fmt: skip


EVERYTHING = merged(
    MONITORING, PEERS, STORE, RAY,
    {
        "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": ["registry"]},
        "gateway": {
            "settings": {"JOB_MEMORY_BYTES_MAX": 8589934592, "EPSILON_MIN": 0.01, "DEVICES": ["cuda:0"]},
            "secretEnvironment": {"PRIVACY_GATEWAY_INFILL_API_KEY": {"secret": "infill", "key": "key"}},
            "secretFolders": [{"name": "authorities", "secret": "internal-ca"}],
            "configFolders": [{"name": "policies", "configMap": "policies"}], "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {}}, "priorityClassName": "high", "podLabels": {"team": "privacy"},
            "podAnnotations": {"note": "text"},
        },
        "redis": {
            "adminPasswordKey": "admin", "archiverPasswordKey": "archiver", "priorityClassName": "high",
            "podAnnotations": {"note": "text"},
        },
        "service": {"type": "LoadBalancer", "annotations": {"note": "text"}},
        "serviceAccount": {"annotations": {"role": "store"}},
        "ingress": {"enabled": True, "host": "gateway.example.com", "className": "nginx", "tlsSecret": "certificate"},
        "autoscaling": {"enabled": True},
        "ray": {
            "image": {"digest": "sha256:" + "0" * 64}, "serviceAccount": {"annotations": {"role": "store of jobs"}},
            "secretEnvironment": {"PRIVACY_GATEWAY_STORE_OPTIONS": {"secret": "store-of-jobs", "key": "options"}},
            "worker": {
                "runtimeClassName": "nvidia", "nodeSelector": {"gpu": "true"},
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            },
        },
        "networkPolicy": {"egress": dict.fromkeys(("upstreams", "webhooks", "traces"), ANYWHERE)},
    },
)  # fmt: skip
VALUES = {"default": {}, "everything": EVERYTHING, "ray": SWITCHES["ray"]} | {
    name: helm_kit.example(name) for name in EXAMPLES
}


@pytest.fixture(params=VALUES)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return render(VALUES[request.param])


def container(manifests: list[Manifest], name: str = "gateway") -> dict[str, Any]:
    return next(each for _, pod in pods(manifests) for each in pod["spec"]["containers"] if each["name"] == name)


def environment(manifests: list[Manifest]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container(manifests)["env"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_has_only_known_fields(manifests: list[Manifest], version: str) -> None:
    assert [error for each in manifests for error in errors_of(each, version)] == []


@pytest.mark.parametrize("counts", cells([[0, 1, 2, len(SWITCHES)], [*range(3, len(SWITCHES))]]), ids=["few", "many"])
def test_every_combination_of_switches_renders_valid_manifests(counts: list[int]) -> None:
    texts: dict[str, list[str]] = {}
    for count in counts:
        for chosen in itertools.combinations(SWITCHES, count):
            for path, text in rendered(merged(*(SWITCHES[name] for name in chosen))).items():
                if path.endswith(".yaml"):
                    texts.setdefault(text, [path, *chosen])
    errors = {tuple(where): [each for one in read(text) for each in errors_of(one)] for text, where in texts.items()}
    assert {where: found for where, found in errors.items() if found} == {}


@pytest.mark.parametrize("name", VALUES)
def test_the_chart_has_no_findings_of_lint(name: str) -> None:
    report = helm_python.lint(CHART, VALUES[name], strict=True, namespace="apps")
    assert report["errors"] == []
    assert [each["error"] for each in report["messages"]] == ["icon is recommended"]


def test_the_packed_chart_contains_the_files_of_deploy(tmp_path: Path) -> None:
    chart = Path(helm_python.package(CHART, destination=tmp_path))
    assert [errors_of(each) for each in render({}, chart=chart)] == [[] for _ in render()]
    maps = {each["metadata"]["name"]: each["data"] for each in of_kind(render(MONITORING, chart=chart), "ConfigMap")}
    for name in ("redis.conf", "users.acl", "redis-start.sh"):
        assert maps["test-privacy-gateway-redis"][name] == (ROOT / "deploy" / name).read_text()
    dashboards = {path.name: path for path in (ROOT / "deploy" / "grafana" / "dashboards").glob("*.json")}
    shown = maps["test-privacy-gateway-dashboards"]
    assert {name.removeprefix("privacy-gateway-") for name in shown} == set(dashboards)
    for name, path in dashboards.items():
        assert shown[f"privacy-gateway-{name}"] == path.read_text()


def test_the_rules_are_those_of_deploy() -> None:
    [rules] = of_kind(render(MONITORING), "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text())


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (project["version"], project["version"])


def test_the_gateway_has_every_variable_as_a_setting_and_reads_its_value(
    manifests: list[Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = environment(manifests)
    prefix = "PRIVACY_GATEWAY_"
    own = {name.removeprefix(prefix).lower() for name in variables if name.startswith(prefix)}
    assert own <= set(Settings.model_fields)
    secrets = {"MASTER_KEY": "0" * 64, "ADMIN_KEY": "a" * 40, "INFILL_API_KEY": "key", "REDIS_URL": "redis://r:6379/0"}
    secrets |= {"STORE_OPTIONS": "{}"}
    for name, value in variables.items():
        monkeypatch.setenv(
            name, value.replace("$(POD_IP)", "10.2.0.7") or secrets.get(name.removeprefix(prefix), "k" * 16)
        )
    settings = Settings()
    assert (settings.port, settings.admin_port, str(settings.data_dir)) == (8000, 9464, "/data/gateway")


def test_numbers_and_lists_reach_the_gateway_unchanged() -> None:
    shown = environment(render(EVERYTHING))
    assert shown["PRIVACY_GATEWAY_JOB_MEMORY_BYTES_MAX"] == "8589934592"
    assert shown["PRIVACY_GATEWAY_EPSILON_MIN"] == "0.01"
    assert shown["PRIVACY_GATEWAY_DEVICES"] == '["cuda:0"]'


def test_a_pod_has_the_time_that_running_requests_may_take() -> None:
    for settings, grace_s in (({}, 85), ({"REQUEST_TIMEOUT_S": 90.5}, 116), ({"REQUEST_TIMEOUT_S": 600}, 625)):
        [(_, pod)] = [each for each in pods(render({"gateway": {"settings": settings}})) if "redis" not in each[0]]
        assert pod["spec"]["terminationGracePeriodSeconds"] == grace_s


def test_a_volume_makes_a_stateful_set_and_a_store_a_deployment() -> None:
    assert [each["metadata"]["name"] for each in of_kind(render(), "StatefulSet")] == [
        "test-privacy-gateway",
        "test-privacy-gateway-redis",
    ]
    assert len(of_kind(render(STORE), "Deployment")) == 1
    [scaled] = of_kind(render(merged(STORE, {"autoscaling": {"enabled": True}})), "Deployment")
    assert "replicas" not in scaled["spec"]  # the autoscaler's


@pytest.mark.parametrize("name", VALUES)
def test_the_notes_name_every_secret_that_must_exist(name: str) -> None:
    values = VALUES[name]
    needed = set(re.findall(r"'secretKeyRef': \{'name': '([^']+)'", str(list(pods(render(values))))))
    variables = [values.get(part, {}).get("secretEnvironment", {}) for part in ("gateway", "ray")]
    own = {each["secret"] for one in variables for each in one.values()}
    assert needed - own <= set(re.findall(r"^  ([a-z-]+): ", helm_kit.notes(values), re.MULTILINE))

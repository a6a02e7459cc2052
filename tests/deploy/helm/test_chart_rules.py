"""What every pod, Service and network policy of the chart guarantees, whatever the values are."""

from collections.abc import Iterator
from typing import Any

import pytest
from helm_kit import Manifest, of_kind, pods, render
from test_chart import MONITORING, PEERS, STORE, VALUES, merged

COMPONENTS = {"gateway", "redis"}
RAY_COMPONENTS = {"ray-head", "ray-worker"}


@pytest.fixture(params=VALUES)
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    return render(VALUES[request.param])


def labels(pod: Manifest) -> dict[str, str]:
    return pod["metadata"]["labels"]


def selects(selector: dict[str, str], pod: Manifest) -> bool:
    return selector.items() <= labels(pod).items()


def containers(manifests: list[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, pod in pods(manifests):
        for each in pod["spec"]["containers"]:
            yield f"{name}/{each['name']}", each


def test_no_pod_can_gain_rights_or_write_to_its_root(manifests: list[Manifest]) -> None:
    for name, pod in pods(manifests):
        security = pod["spec"]["securityContext"]
        assert security["runAsNonRoot"] is True, name
        assert security["runAsUser"] >= 999, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["spec"]["automountServiceAccountToken"] is False, name
        assert pod["spec"]["enableServiceLinks"] is False, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod["spec"]), name
    for name, container in containers(manifests):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name


def test_temporary_files_are_in_memory_and_every_mount_has_its_volume(manifests: list[Manifest]) -> None:
    claims = {
        claim["metadata"]["name"] for each in of_kind(manifests, "StatefulSet")
        for claim in each["spec"].get("volumeClaimTemplates", ())
    }  # fmt: skip
    for name, pod in pods(manifests):
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        assert len(volumes) == len(pod["spec"]["volumes"]), name
        for container in pod["spec"]["containers"]:
            mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
            assert set(mounts.values()) <= set(volumes) | claims, name
            for path in {"/tmp", "/dev/shm"} & set(mounts):
                assert volumes[mounts[path]]["emptyDir"]["medium"] == "Memory", name
            assert "/tmp" in mounts, name


def test_probes_wait_longer_than_a_canary_takes_and_name_ports_that_exist(manifests: list[Manifest]) -> None:
    for name, container in containers(manifests):
        ports = {each["name"] for each in container.get("ports", ())}
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = container[kind]
            assert kind == "startupProbe" or probe["timeoutSeconds"] >= 12, name
            target = probe.get("httpGet") or probe.get("tcpSocket") or {"port": 0}
            assert isinstance(target["port"], int) or target["port"] in ports, name


def test_no_manifest_is_a_secret_and_no_value_of_one_is_written(manifests: list[Manifest]) -> None:
    assert of_kind(manifests, "Secret") == []
    for name, container in containers(manifests):
        for variable in container["env"]:
            if variable["name"].endswith(("_KEY", "_PASSWORD", "_TOKEN", "_SECRET")):
                assert set(variable["valueFrom"]) == {"secretKeyRef"}, name


def test_every_selector_selects_pods_of_one_component(manifests: list[Manifest]) -> None:
    templates = [pod for _, pod in pods(manifests)]
    selectors = [each["spec"]["selector"] for each in of_kind(manifests, "Service")]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in of_kind(manifests, "PodDisruptionBudget")]
    for policy in of_kind(manifests, "NetworkPolicy")[1:]:
        selectors.append(policy["spec"]["podSelector"]["matchLabels"])
        peers = [peer for rule in policy["spec"].get("ingress") or () for peer in rule["from"]]
        peers += [peer for rule in policy["spec"].get("egress") or () for peer in rule["to"]]
        for peer in peers:
            found = peer.get("podSelector", {}).get("matchLabels", {})
            if "app.kubernetes.io/instance" in found:
                selectors.append(found)
    for selector in selectors:
        chosen = {labels(pod)["app.kubernetes.io/component"] for pod in templates if selects(selector, pod)}
        assert len(chosen) == 1, selector


def test_administration_is_reachable_inside_the_cluster_alone(manifests: list[Manifest]) -> None:
    for service in of_kind(manifests, "Service"):
        if any(port["targetPort"] == "admin" for port in service["spec"]["ports"]):
            assert service["spec"]["type"] == "ClusterIP"
            assert len(service["spec"]["ports"]) == 1
    for ingress in of_kind(manifests, "Ingress"):
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                assert path["backend"]["service"] == {"name": "test-privacy-gateway", "port": {"name": "api"}}


def test_all_traffic_is_denied_and_no_rule_admits_everybody(manifests: list[Manifest]) -> None:
    denied, *others = of_kind(manifests, "NetworkPolicy")
    assert set(denied["spec"]) == {"podSelector", "policyTypes"}
    assert denied["spec"]["policyTypes"] == ["Ingress", "Egress"]
    [expression] = denied["spec"]["podSelector"]["matchExpressions"]
    components = COMPONENTS | (RAY_COMPONENTS if of_kind(manifests, "RayCluster") else set())
    assert set(expression["values"]) == components
    instance = denied["spec"]["podSelector"]["matchLabels"]
    for name, pod in pods(manifests):
        assert selects(instance, pod), name
        assert labels(pod)["app.kubernetes.io/component"] in components, name
    for policy in others:
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for rule in policy["spec"].get(direction) or ():
                assert rule[peers], policy["metadata"]["name"]  # an empty list is everybody


def ports_of(rule: dict[str, Any]) -> set[int]:
    return {port["port"] for port in rule.get("ports", ())}


def test_clients_reach_the_api_operators_the_other_port_and_redis_only_gateways() -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind(render(PEERS), "NetworkPolicy")}
    clients, operators = policies["test-privacy-gateway"]["ingress"]
    assert (clients["from"], ports_of(clients)) == ([{"podSelector": {}}], {8000})
    assert (operators["from"], ports_of(operators)) == ([{"namespaceSelector": {}}], {9464})
    [redis] = policies["test-privacy-gateway-redis"]["ingress"]
    assert redis["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
    assert "egress" not in policies["test-privacy-gateway-redis"]
    closed = {each["metadata"]["name"]: each["spec"] for each in of_kind(render(), "NetworkPolicy")}
    assert "ingress" not in closed["test-privacy-gateway"]  # no peer is named, so nobody


def test_prometheus_finds_the_port_of_metrics() -> None:
    found = render(MONITORING)
    [monitor] = of_kind(found, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    [service] = [each for each in of_kind(found, "Service") if wanted.items() <= each["metadata"]["labels"].items()]
    assert [port["name"] for port in service["spec"]["ports"]] == [monitor["spec"]["endpoints"][0]["port"]]


def test_the_autoscaler_scales_the_gateways() -> None:
    found = render(merged(STORE, {"autoscaling": {"enabled": True}}))
    [scaler], [deployment] = of_kind(found, "HorizontalPodAutoscaler"), of_kind(found, "Deployment")
    target = scaler["spec"]["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"]) == (deployment["apiVersion"], deployment["kind"])
    assert target["name"] == deployment["metadata"]["name"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]

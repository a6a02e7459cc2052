"""The Ray cluster of the chart: what it runs, and who reaches what."""

import itertools
from typing import Any

import pytest
from helm_kit import Manifest, Values, of_kind, pods, render, rendered
from helm_python import HelmError
from test_chart import EVERYTHING, RAY, SWITCHES, VALUES, container, merged

from gpu_workers.remote.channel import ClusterSettings
from service.config.settings import Settings

CLUSTER = merged(SWITCHES["ray"], {"gateway": {"settings": {"JOB_THREADS": 2, "STORE_PLAIN_HTTP": True}}})
GATEWAY, REDIS, HEAD, WORKER = "gateway", "redis", "ray-head", "ray-worker"
ANY_PORT = 31234  # of those that Ray chooses


def spec(values: Values) -> dict[str, Any]:
    [cluster] = of_kind(render(values), "RayCluster")
    found: dict[str, Any] = cluster["spec"]
    return found


def pod_of(manifests: list[Manifest], component: str) -> Manifest:
    return next(
        pod for _, pod in pods(manifests) if pod["metadata"]["labels"]["app.kubernetes.io/component"] == component
    )


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


@pytest.mark.parametrize("name", [name for name in VALUES if name not in ("ray", "everything")])
def test_nothing_of_ray_is_rendered_unless_it_is_enabled(name: str) -> None:
    texts = rendered(VALUES[name])
    assert [path for path, text in texts.items() if "ray-" in text or "RAY_" in text or "ray.io" in text] == []


def test_workers_scale_and_the_head_takes_no_work() -> None:
    cluster = spec(merged(CLUSTER, {"ray": {"worker": {"minReplicas": 1, "maxReplicas": 7}}}))
    [group] = cluster["workerGroupSpecs"]
    assert cluster["enableInTreeAutoscaling"] is True
    assert (group["minReplicas"], group["maxReplicas"], "replicas" in group) == (1, 7, False)
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    [worker] = group["template"]["spec"]["containers"]
    assert worker["resources"]["limits"] == {"cpu": 4, "memory": "20Gi", "nvidia.com/gpu": 1}
    assert worker["image"] == "privacy-gateway:ray"
    assert cluster["upgradeStrategy"] == {"type": "Recreate"}


def test_only_a_service_of_the_cluster_leads_to_the_head() -> None:
    head = spec(CLUSTER)["headGroupSpec"]
    assert (head["serviceType"], head["enableIngress"]) == ("ClusterIP", False)


@pytest.mark.parametrize("component", [HEAD, WORKER])
def test_what_a_node_writes_is_in_memory(component: str) -> None:
    pod = pod_of(render(CLUSTER), component)["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert set(mounts) == {"/tmp", "/tmp/ray", "/home/gateway", "/dev/shm"}
    assert {volumes[name]["emptyDir"]["medium"] for name in mounts.values()} == {"Memory"}
    assert variables(pod["containers"][0])["RAY_automatic_object_spilling_enabled"] == "0"


def test_the_autoscaler_alone_has_a_token_of_the_cluster() -> None:
    cluster, manifests = spec(EVERYTHING), render(EVERYTHING)
    options = cluster["autoscalerOptions"]
    assert options["securityContext"] == container(manifests)["securityContext"]
    volumes = cluster["headGroupSpec"]["template"]["spec"]["volumes"]
    [token] = [each["name"] for each in volumes if "projected" in each]
    assert {each["mountPath"] for each in options["volumeMounts"] if each["name"] == token} == {
        "/var/run/secrets/kubernetes.io/serviceaccount"
    }
    for component in (GATEWAY, HEAD, WORKER):
        for each in pod_of(manifests, component)["spec"]["containers"]:
            assert token not in {mount["name"] for mount in each["volumeMounts"]}
    account = pod_of(manifests, WORKER)["spec"]["serviceAccountName"]
    [found] = [each for each in of_kind(manifests, "ServiceAccount") if each["metadata"]["name"] == account]
    assert found["metadata"]["annotations"] == {"role": "store of jobs"}


def test_gateways_and_nodes_have_settings_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    manifests = render(CLUSTER)
    [cluster] = of_kind(manifests, "RayCluster")
    gateway, worker = container(manifests), cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    given, of_node = variables(gateway), variables(worker)
    for each in (of_node, variables(container(manifests, HEAD)), variables(cluster["spec"]["autoscalerOptions"])):
        assert (each["RAY_AUTH_MODE"], each["RAY_AUTH_TOKEN"]) == ("token", given["PRIVACY_GATEWAY_RAY_TOKEN"])
    assert given["POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    for name, value in of_node.items():
        if isinstance(value, str):
            monkeypatch.setenv(name, value)
    node = ClusterSettings()
    for name, value in given.items():
        monkeypatch.setenv(name, value.replace("$(POD_IP)", "10.2.0.7") if isinstance(value, str) else "0" * 64)
    monkeypatch.setenv("PRIVACY_GATEWAY_REDIS_URL", "redis://redis:6379/0")
    settings = Settings()
    assert settings.jobs_on == "ray"
    assert settings.ray_url == f"http://{cluster['metadata']['name']}-head-svc:8265"
    assert settings.ray_gateway_url == f"http://10.2.0.7:{settings.ray_port}"
    assert settings.ray_port in {each["containerPort"] for each in gateway["ports"]}
    for name in ("store_url", "store_plain_http", "ray_plain_http", "job_threads"):
        assert getattr(node, name) == getattr(settings, name), name


def permits(policies: list[Manifest], direction: str, pod: Manifest, other: Manifest, port: int) -> bool:
    """Whether the policies of `pod` permit traffic with `other`, which are the same for both directions."""

    def selects(selector: dict[str, Any] | None, pod: Manifest) -> bool:
        return selector is not None and selector["matchLabels"].items() <= pod["metadata"]["labels"].items()

    rules = [
        rule
        for policy in policies
        if selects(policy["spec"]["podSelector"], pod)
        for rule in policy["spec"].get(direction, ())
    ]
    return any(
        any(selects(peer.get("podSelector"), other) for peer in rule["from" if direction == "ingress" else "to"])
        and ("ports" not in rule or port in {each["port"] for each in rule["ports"]})
        for rule in rules
    )


def test_pods_reach_the_ports_that_they_need_and_no_others() -> None:
    manifests = render(CLUSTER)
    _, *policies = of_kind(manifests, "NetworkPolicy")  # the first one denies
    templates = {each: pod_of(manifests, each) for each in (GATEWAY, REDIS, HEAD, WORKER)}
    reached = {
        (source, target, port)
        for source, target in itertools.product(templates, repeat=2)
        for port in (6379, 8000, 8265, 9464, 9470, ANY_PORT)
        if permits(policies, "egress", templates[source], templates[target], port)
        and permits(policies, "ingress", templates[target], templates[source], port)
    }
    nodes = {each for each in reached if each[0] in (HEAD, WORKER) and each[1] in (HEAD, WORKER)}
    assert len(nodes) == 2 * 2 * 6, "nodes reach one another at every port"
    assert reached - nodes == {(GATEWAY, REDIS, 6379), (GATEWAY, HEAD, 8265), (WORKER, GATEWAY, 9470)}


def test_the_api_server_is_reached_by_the_head_and_the_store_by_gateways_and_workers() -> None:
    policies = {
        each["metadata"]["name"]: str(each["spec"].get("egress")) for each in of_kind(render(CLUSTER), "NetworkPolicy")
    }
    of_address = {
        address: {name.removeprefix("test-privacy-gateway") for name, rules in policies.items() if address in rules}
        for address in ("10.1.0.1/32", "10.0.0.0/8", "kube-dns")
    }
    assert of_address == {
        "10.1.0.1/32": {"-ray-head"},
        "10.0.0.0/8": {"", "-ray-worker"},
        "kube-dns": {"", "-ray-head", "-ray-worker"},
    }


OPTIONS = {"PRIVACY_GATEWAY_STORE_OPTIONS": {"secret": "store", "key": "options"}}
CONFLICTS: dict[str, tuple[Values, str]] = {
    "no store": (RAY, "ray.enabled needs storage.objectStore.url"),
    "a setting of the chart": ({"gateway": {"settings": {"RAY_URL": "http://ray:8265"}}}, "RAY_URL: ray.enabled sets"),
    "the place of jobs": ({"gateway": {"settings": {"JOBS_ON": "gateway"}}}, "JOBS_ON: ray.enabled sets it"),
    "a second token": (
        {"gateway": {"secretEnvironment": {"PRIVACY_GATEWAY_RAY_TOKEN": {"secret": "a", "key": "b"}}}},
        "set ray.secret and ray.tokenKey",
    ),
    "no options of the store": ({"gateway": {"secretEnvironment": OPTIONS}}, "ray.secretEnvironment needs"),
    "an authority in a secret": (
        {
            "gateway": {
                "settings": {"STORE_CA_FILE": "/etc/privacy-gateway/ca/ca.pem"},
                "secretFolders": [{"name": "ca", "secret": "internal-ca"}],
            }
        },
        "STORE_CA_FILE",
    ),
    "backwards": ({"ray": {"worker": {"minReplicas": 5}}}, "minReplicas is above"),
    "small workers": ({"gateway": {"settings": {"JOB_THREADS": 5}}}, "cores is below JOB_THREADS"),
    "few workers": (
        {"gateway": {"settings": {"JOB_THREADS": 3}}, "ray": {"worker": {"maxReplicas": 1, "gpus": 0}}},
        "do not fit on maxReplicas",
    ),
    "few GPUs": (
        {"gateway": {"settings": {"DEVICES": ["cuda:0"]}}, "ray": {"worker": {"maxReplicas": 1}}},
        "take a GPU each",
    ),
    "no API server": ({"networkPolicy": {"egress": {"clusterApi": []}}}, "set networkPolicy.egress.clusterApi"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_values_that_cannot_work_are_refused_by_their_name(name: str) -> None:
    values, message = CONFLICTS[name]
    with pytest.raises(HelmError, match=message):
        rendered(values if name == "no store" else merged(SWITCHES["ray"], values))

"""Wrong values and unknown fields are refused."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from helm_kit import CHART, Values, errors_of, render, rendered
from helm_python import HelmError
from helm_settings import CHART_SETS, SECRET_SETTINGS, setting_names
from test_chart import EVERYTHING, MONITORING, STORE, merged

SCHEMA: dict[str, Any] = yaml.safe_load((CHART / "values.schema.json").read_text())


def described(schema: dict[str, Any], place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every value that the schema has, by its place."""
    yield place, schema
    for name, each in schema.get("properties", {}).items():
        yield from described(each, f"{place}.{name}")
    if isinstance(schema.get("items"), dict) and "properties" in schema["items"]:
        yield from described(schema["items"], f"{place}[]")


def test_every_value_is_described_and_unknown_ones_are_refused() -> None:
    roots = {"values": SCHEMA} | {f"$defs.{name}": each for name, each in SCHEMA["$defs"].items()}
    for root, schema in roots.items():
        for place, each in described(schema, root):
            assert each.get("description") or place.endswith("[]"), place
            assert "properties" not in each or each["additionalProperties"] is False, place


def test_the_schema_names_every_setting_but_those_of_the_chart() -> None:
    assert SCHEMA["$defs"]["setting"]["enum"] == setting_names(), "run `make chart-settings`"
    assert {
        each.removeprefix("PRIVACY_GATEWAY_") for each in SCHEMA["$defs"]["secretSetting"]["enum"]
    } == SECRET_SETTINGS
    assert not CHART_SETS & SECRET_SETTINGS


WRONG: dict[str, Values] = {
    "section": {"gatway": {"replicas": 2}},
    "member": {"gateway": {"replica": 2}},
    "setting": {"gateway": {"settings": {"REQUEST_TIMEOUT": 60}}},
    "setting of the chart": {"gateway": {"settings": {"PORT": 9000}}},
    "secret as a setting": {"gateway": {"settings": {"INFILL_API_KEY": "text"}}},
    "secret setting": {"gateway": {"secretEnvironment": {"PRIVACY_GATEWAY_INFIL_KEY": {"secret": "a", "key": "b"}}}},
    "member of a secret": {"gateway": {"secretEnvironment": {"OPENAI_API_KEY": {"secret": "a", "name": "b"}}}},
    "value of a secret": {"gateway": {"secretEnvironment": {"OPENAI_API_KEY": "text"}}},
    "folder": {"gateway": {"secretFolders": [{"name": "a"}]}},
    "replicas": {"gateway": {"replicas": -1}},
    "quantity": {"gateway": {"temporaryFiles": "1 GiB"}},
    "resource": {"gateway": {"resources": {"limits": {"memry": "1Gi"}}}},
    "short probe": {"gateway": {"probeTimeoutSeconds": 5}},
    "toleration": {"gateway": {"tolerations": [{"keys": "gpu"}]}},
    "spread": {"gateway": {"topologySpread": {"hostname": "Sometimes"}}},
    "redis mode": {"redis": {"mode": "embedded"}},
    "memory of redis": {"redis": {"maxmemory": "3Gi"}},
    "store": {"storage": {"objectStore": {"url": "https://bucket"}}},
    "volume": {"storage": {"volume": {"siez": "1Gi"}}},
    "digest": {"image": {"digest": "0123"}},
    "service": {"service": {"type": "ExternalName"}},
    "port": {"service": {"port": 70000}},
    "peer": {"networkPolicy": {"clients": [{"podSelektor": {}}]}},
    "empty peer": {"networkPolicy": {"clients": [{}]}},
    "destination": {"networkPolicy": {"egress": {"upstream": []}}},
    "destination without peers": {"networkPolicy": {"egress": {"upstreams": [{"to": [], "ports": [443]}]}}},
    "destination without ports": {"networkPolicy": {"egress": {"upstreams": [{"to": [{"podSelector": {}}]}]}}},
    "cidr": {"networkPolicy": {"egress": {"webhooks": [{"to": [{"ipBlock": {"cidr": "anywhere"}}], "ports": [443]}]}}},
    "key of a worker": {"ray": {"secretEnvironment": {"PRIVACY_GATEWAY_MASTER_KEY": {"secret": "a", "key": "b"}}}},
    "no workers": {"ray": {"worker": {"maxReplicas": 0}}},
    "interval": {"monitoring": {"serviceMonitor": {"interval": "often"}}},
    # combinations
    "autoscaling with volumes": {"autoscaling": {"enabled": True}},
    "autoscaling backwards": merged(STORE, {"autoscaling": {"enabled": True, "minReplicas": 9}}),
    "external redis without a secret": {"redis": {"mode": "external"}},
    "external redis that is denied": {"redis": {"mode": "external", "external": {"secret": "ledger"}}},
    "store that is denied": {"storage": {"objectStore": {"url": "s3://bucket"}}},
    "ingress without a host": {"ingress": {"enabled": True}},
    "two gateways with volumes": {"gateway": {"replicas": 2}},
}  # fmt: skip


def test_wrong_values_are_refused() -> None:
    for name in WRONG:
        with pytest.raises(HelmError):
            rendered(WRONG[name])


def test_a_field_that_the_api_server_does_not_know_is_found() -> None:
    for each in render(merged(EVERYTHING, MONITORING)):
        assert errors_of(each | {"specs": {}}), each["kind"]

"""The nodes of Compose's Ray cluster hold no key of the gateway, and Ray itself admits nobody without its token."""

from __future__ import annotations

from pathlib import Path

import yaml

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"


def test_no_ray_node_mounts_the_volume_with_the_keys() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert "gateway-data:/data" in services["gateway-ray"]["volumes"]
    for name in ("ray-head", "ray-node"):
        for mount in services[name].get("volumes", ()):
            whole = isinstance(mount, str) or "subpath" not in mount.get("volume", {})
            assert not (whole and "gateway-data" in str(mount)), name


def test_ray_needs_its_token() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    for name in ("ray-head", "ray-node"):
        environment = services[name]["environment"]
        assert environment["RAY_AUTH_MODE"] == "token"
        assert environment["RAY_AUTH_TOKEN"] == "${RAY_TOKEN:-}"

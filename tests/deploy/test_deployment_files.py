"""The image, the compose file, the chart and what they mount fit together."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_kit import pods, render
from locked_versions import CONSTRAINTS, required
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from stub_kit import Request, StubServer, answer

from service.config.settings import Settings

ROOT = Path(__file__).parents[2]
CADDY = shutil.which("caddy")
PREFIX = "PRIVACY_GATEWAY_"
CANARY_S = 10  # how long /readyz may take
API, ADMIN = 8000, 9464
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
GIVEN = {"REDIS_PASSWORD": "abc", "MASTER_KEY": "0" * 64, "ADMIN_KEY": "a" * 40, "DOMAIN": "gateway.example"}
GIVEN["RAY_TOKEN"] = "t" * 32
GATEWAYS = {name: each for name, each in SERVICES.items() if name.startswith("gateway")}


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its text."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def of(name: str) -> list[str]:
    return [text for each, text in instructions() if each == name]


def image_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for text in of("ENV") for pair in text.split())


@pytest.mark.parametrize(("status", "is_healthy"), [(200, True), (503, False)])
@pytest.mark.usefixtures("processes")
def test_the_health_check_of_the_image_asks_the_configured_port(status: int, is_healthy: bool) -> None:
    asked: list[str] = []

    class Gateway(StubServer):
        def serve(self, request: Request) -> None:
            asked.append(request.path)
            answer(request, status=status)

    command = json.loads(of("HEALTHCHECK")[0].partition(" CMD ")[2])
    with Gateway() as server:
        environment = {f"{PREFIX}PORT": server.origin.rpartition(":")[2]}
        done = subprocess.run([sys.executable, *command[1:]], env=environment, capture_output=True, timeout=60)
    assert asked == ["/readyz"]
    assert (done.returncode == 0) is is_healthy


def test_the_health_check_waits_for_the_canary_and_for_models_that_load() -> None:
    [check] = of("HEALTHCHECK")
    assert all(float(seconds) > CANARY_S for seconds in re.findall(r"timeout=(\d+)", check))
    assert float(re.findall(r"--start-period=(\d+)", check)[0]) >= 300


def test_image_chart_and_compose_agree_on_user_ports_and_folders() -> None:
    [pod] = [pod for name, pod in pods(render()) if "redis" not in name]
    [container] = pod["spec"]["containers"]
    assert f"--uid {pod['spec']['securityContext']['runAsUser']} " in of("RUN")[-1]
    assert of("USER") == ["gateway"]
    assert {each["name"]: each["containerPort"] for each in container["ports"]} == {"api": API, "admin": ADMIN}
    environment = image_environment()
    assert of("EXPOSE") == [environment[f"{PREFIX}PORT"]] == [str(API)]
    assert environment[f"{PREFIX}DATA_DIR"] in of("VOLUME")
    assert f"gateway {API} " in (ROOT / "deploy" / "Caddyfile").read_text()
    [scraped] = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())["scrape_configs"]
    assert [each["port"] for each in scraped["dns_sd_configs"]] == [ADMIN]
    for name, each in GATEWAYS.items():
        assert each["environment"][f"{PREFIX}ADMIN_PORT"] == str(ADMIN), name
        for mount in each["volumes"]:
            assert f" {mount.partition(':')[2]}" in of("RUN")[-1], "the folder is not the user's"


def test_the_libraries_are_installed_before_the_code_is_copied() -> None:
    steps = [f"{name} {text}" for name, text in instructions()]
    libraries = next(n for n, step in enumerate(steps) if "pip install" in step)
    code = [n for n, step in enumerate(steps) if re.match(r"COPY (service|core|gpu_workers) ", step)]
    assert len(code) == 3
    assert libraries < min(code)
    assert steps[libraries].count("pip install") == steps[libraries].count("-c /app/constraints.txt")


def test_the_constraints_are_exact_versions_that_the_project_admits() -> None:
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#")]
    locked = {}
    for line in lines:
        each = Requirement(line)
        assert re.fullmatch(r"==[^*]+", str(each.specifier)), line
        assert each.url is None, line
        locked[canonicalize_name(each.name)] = str(each.specifier).removeprefix("==")
    for each in required():
        assert each.specifier.contains(locked[canonicalize_name(each.name)]), f"{each}: run `make lock`"


def test_the_example_of_secrets_has_every_variable_of_compose() -> None:
    named = set(re.findall(r"^#?([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert named == set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))


def test_the_unit_of_systemd_sets_settings_and_waits_as_long_as_compose() -> None:
    unit = (ROOT / "deploy/privacy-gateway.service").read_text()
    names = re.findall(rf"^Environment={PREFIX}(\w+)=", unit, re.MULTILINE)
    assert {name.lower() for name in names} <= Settings.model_fields.keys()
    assert {f"{re.findall('TimeoutStopSec=(.*)', unit)[0]}s"} == {
        each["stop_grace_period"] for each in GATEWAYS.values()
    }


def test_a_gateway_of_compose_can_be_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own data folder and host port; keys, ledger and store are those of all."""
    for name, each in GATEWAYS.items():
        assert "container_name" not in each, name
        for port in each["ports"]:
            first, last = port.rsplit(":", 2)[1].split("-")
            assert int(last) > int(first), "one port of the host is for one container"
        assert "/data" not in {mount.rpartition(":")[2] for mount in each["volumes"]}, name
        variables = image_environment() | each["environment"]
        own = {key.removeprefix(PREFIX).lower() for key in variables if key.startswith(PREFIX)}
        assert {"master_key", "admin_key", "store_url"} <= own <= set(Settings.model_fields)
        for key, value in variables.items():
            if key != "PATH":
                monkeypatch.setenv(key, re.sub(r"\$\{(\w+)[^}]*\}", lambda found: GIVEN[found[1]], value))
        settings = Settings()
        assert settings.redis_url == "redis://gateway:abc@redis:6379/0"
        assert settings.dashboard_hosts[0] == "gateway.example"
        assert settings.connections_per_address_max == settings.connections_max, "all come from the proxy"
        assert float(each["stop_grace_period"].removesuffix("s")) >= settings.request_timeout_s + 20


def test_gateways_of_both_kinds_have_one_name_and_the_gpu_is_found() -> None:
    for name, each in GATEWAYS.items():
        assert "gateway" in {name, *(each["networks"]["edge"] or {}).get("aliases", ())}
        assert not {f"{PREFIX}DEVICES", f"{PREFIX}PORT"} & each["environment"].keys(), "`auto` finds a GPU"
    [device] = GATEWAYS["gateway-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert Settings.model_fields["devices"].default == ("auto",)


def test_only_the_proxy_is_reachable_from_other_machines() -> None:
    outside = {
        name for name, each in SERVICES.items() for port in each.get("ports", ()) if not port.startswith("127.0.0.1:")
    }
    assert outside == {"proxy"}
    assert COMPOSE["networks"]["ledger"] == {"internal": True}
    assert list(SERVICES["redis"]["networks"]) == ["ledger"]
    assert SERVICES["redis"]["healthcheck"]["test"]


def test_a_cluster_of_compose_reaches_its_gateway_and_the_store_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = SERVICES["ray-gateway"]
    for key, value in (image_environment() | gateway["environment"]).items():
        if key != "PATH":
            monkeypatch.setenv(key, re.sub(r"\$\{(\w+)[^}]*\}", lambda found: GIVEN[found[1]], value))
    settings = Settings()
    assert settings.jobs_on == "ray"
    assert settings.ray_gateway_url == f"http://ray-gateway:{settings.ray_port}"
    nodes = {name: each for name, each in SERVICES.items() if name in ("ray-head", "ray-worker")}
    assert len(nodes) == 2
    for name, each in nodes.items():
        assert (list(each["networks"]), "ports" in each, each["read_only"]) == (["cluster"], False, True), name
        assert each["ulimits"] == {"core": 0}
        assert set(each["tmpfs"]) == {"/tmp", "/home/gateway"}, "what Ray writes is in memory"
        assert each["volumes"] == ["gateway-store:/store"], "encrypted files of jobs"
        environment = each["environment"]
        assert environment["RAY_AUTH_TOKEN"] == gateway["environment"][f"{PREFIX}RAY_TOKEN"]
        assert environment["RAY_AUTH_MODE"] == "token"
        assert environment[f"{PREFIX}STORE_URL"] == settings.store_url
    assert COMPOSE["networks"]["cluster"] == {"internal": True}
    assert "--block" in nodes["ray-head"]["command"]


def test_compose_names_only_what_exists() -> None:
    for name, each in SERVICES.items():
        assert each.keys() & {"image", "build"}, name
        assert set(each["networks"]) <= COMPOSE["networks"].keys(), name
        assert set(each.get("depends_on", ())) <= SERVICES.keys(), name
        for mount in each.get("volumes", ()):
            source, target, *options = mount.split(":")
            exists = (ROOT / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]
            assert exists, f"{name}: {source}"
            assert target.startswith("/"), f"{name}: {target}"
            assert options in ([], ["ro"]), f"{name}: {mount}"
    used = {mount.partition(":")[0] for each in SERVICES.values() for mount in each.get("volumes", ())}
    assert COMPOSE["volumes"].keys() <= used
    variables = set(re.findall(r"\{\$(\w+)", (ROOT / "deploy" / "Caddyfile").read_text()))
    assert variables == SERVICES["proxy"]["environment"].keys()


@pytest.mark.skipif(CADDY is None, reason="caddy is not installed")
@pytest.mark.parametrize("given", [{}, {"DOMAIN": "gateway.example", "TLS": "operator@gateway.example"}])
@pytest.mark.usefixtures("processes")
def test_caddy_reads_its_file(given: dict[str, str], tmp_path: Path) -> None:
    assert CADDY is not None
    command = [CADDY, "validate", "--adapter", "caddyfile", "--config", str(ROOT / "deploy" / "Caddyfile")]
    done = subprocess.run(command, env=given | {"HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

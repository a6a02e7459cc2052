"""Fixtures for every test that wants a running gateway."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from gateway_kit import Gateway, Tenant, documented_policies, documented_presets

from gpu_workers.child_process import WORKER_ENVIRONMENT

# models that run inside a test compute as in a worker, which reads these when it loads its libraries
for _name, _value in WORKER_ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
# tests run side by side: more threads of each would only wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked `long`, too")
    parser.addoption("--threads", type=int, default=2, help="of torch, where a test says that it has several")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        skip = pytest.mark.skip(reason="a long test: pass --long")
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway on its embedded defaults for all tests, with the documented presets and policies; each test opens a
    tenant."""
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "presets.toml").write_text(documented_presets())
    (folder / "policies.toml").write_text(documented_policies())
    (folder / "lists").mkdir()
    (folder / "lists" / "clinical.txt").write_text("the patient was seen by\n")
    for name in ("tiny", "pickled"):  # a test writes the checkpoint; the other has weights in another format
        (folder / "encoders" / name).mkdir(parents=True)
    (folder / "encoders" / "pickled" / "pytorch_model.bin").write_bytes(b"no pickle is read")
    environment = {
        "PRIVACY_GATEWAY_FINETUNE_MODELS": json.dumps(
            {name: str(folder / "encoders" / name) for name in ("tiny", "pickled")}
        ),
        "PRIVACY_GATEWAY_PRESETS_FILE": str(folder / "presets.toml"),
        "PRIVACY_GATEWAY_POLICIES_FILE": str(folder / "policies.toml"),
        "PRIVACY_GATEWAY_ALLOW_LISTS_DIR": str(folder / "lists"),
    }
    running = Gateway(folder / "data", environment)
    yield running
    running.stop()


@pytest.fixture
def tenant(gateway: Gateway) -> Tenant:
    """A fresh tenant with a budget of 1000 in every unit."""
    return gateway.tenant()

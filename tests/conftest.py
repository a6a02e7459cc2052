"""Gateways for tests, and which tests a run leaves out.

`gateway` and `tenant` run in the process of the test, which is enough for most tests. `real_gateway` and `real_tenant`
are for what needs processes: workers, jobs, signals, true streams, log files, commands beside a gateway.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import environment_kit  # noqa: F401 (before all that reads the environment)
import pytest
from gateway_kit import MEASURED_VARIABLE, Gateway, Tenant, documented_settings
from hypothesis import settings
from inprocess_kit import Gateway as InProcessGateway

# an example that takes long shows only that the machine is busy
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

# each above some 15 seconds of a processor, the longest first
LONGEST = Path(__file__).with_name("longest_files.txt")
SLOW_KINDS = {
    "crash": "processes are killed, or stopped and started again",
    "outage": "Redis or a device fails",
    "statistics": "many draws, so that a wrong distribution shows",
    "planted bug": "a bug is seeded and must be found",
    "training": "whole trainings and builds",
    "documentation": "every command of the documentation runs",
    "installation": "wheels, compilers, other processors, an installed Redis",
    "fuzzing": "a gateway is attacked with many generated requests",
    "process": "a property of processes of their own: environment, port, memory, time",
    "peer": "another program is installed and started beside the gateway",
    "browser": "pages are used in a real browser over a gateway of their own",
    "grid": "a bound is compared with other computations over a grid of parameters",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests marked `slow`, too (`make test-all`)")
    parser.addoption("--long", action="store_true", help="run the tests marked `long`, too (`make test-long`)")
    parser.addoption("--threads", type=int, default=2, help="of torch, where a test says that it has several")


def pytest_configure(config: pytest.Config) -> None:
    """The first worker checks its device in full, and all others find what it has measured."""
    if MEASURED_VARIABLE not in os.environ:  # processes of this run have it from the first one
        folder = tempfile.TemporaryDirectory(prefix="measured-")
        config.add_cleanup(folder.cleanup)
        os.environ[MEASURED_VARIABLE] = folder.name


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip_long = pytest.mark.skip(reason="a long test: pass --long")
    skip_slow = pytest.mark.skip(reason="a slow test: pass --all")
    # The longest files come first and those of `core` last, so that processes that run side by side end together.
    folder = Path(__file__).parent
    places = {folder / name: place for place, name in enumerate(LONGEST.read_text().split())}
    items.sort(
        key=lambda item: (places.get(item.path, len(places)), item.path.is_relative_to(folder / "core"), item.path)
    )
    for item in items:
        for mark in item.iter_markers("slow"):
            if mark.args[0] not in SLOW_KINDS:
                raise pytest.UsageError(f"{item.nodeid}: a slow test is one of {sorted(SLOW_KINDS)}")
        if item.get_closest_marker("long") and not config.getoption("--long"):
            item.add_marker(skip_long)
        elif item.get_closest_marker("slow") and not (config.getoption("--all") or config.getoption("--long")):
            item.add_marker(skip_slow)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessGateway]:
    """One gateway in this process for all tests that need no other; each test opens a tenant."""
    folder = tmp_path_factory.mktemp("in-process")
    running = InProcessGateway(folder / "data", documented_settings(folder))
    yield running
    running.stop()


@pytest.fixture
def tenant(gateway: InProcessGateway) -> Tenant:
    """A fresh tenant with a budget of 1000 in every unit."""
    return gateway.tenant()


@pytest.fixture(scope="session")
def real_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One `privacy-gateway serve` on its embedded defaults, with real workers; each test opens a tenant."""
    folder = tmp_path_factory.mktemp("gateway")
    running = Gateway(folder / "data", documented_settings(folder))
    yield running
    running.stop()


@pytest.fixture
def real_tenant(real_gateway: Gateway) -> Tenant:
    """As `tenant`, of `real_gateway`."""
    return real_gateway.tenant()

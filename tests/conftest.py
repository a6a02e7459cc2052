"""Gateways for tests. `tests/kits/tiers.py` has the tiers.

`gateway` and `tenant` run in the process of the test, which is enough for most tests. `real_gateway` and `real_tenant`
are for what needs processes: workers, jobs, signals, true streams, log files, commands beside a gateway.
"""

import os
import tempfile
from collections.abc import Iterator

import environment_kit  # noqa: F401 (before all that reads the environment)
import pytest
from gateway_kit import MEASURED_VARIABLE, Gateway, Tenant, documented_settings
from hypothesis import settings
from inprocess_kit import Gateway as InProcessGateway

# an example that takes long shows only that the machine is busy
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

pytest_plugins = ["tiers"]


def pytest_configure(config: pytest.Config) -> None:
    """Each answer is compared with the API's description. The first worker checks its device in full, and all others
    find what it has measured."""
    InProcessGateway.checks_answers = True
    if MEASURED_VARIABLE not in os.environ:  # processes of this run have it from the first one
        folder = tempfile.TemporaryDirectory(prefix="measured-")
        config.add_cleanup(folder.cleanup)
        os.environ[MEASURED_VARIABLE] = folder.name


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
def real_gateway(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One `privacy-gateway serve` on its embedded defaults, with real workers; each test opens a tenant."""
    folder = tmp_path_factory.mktemp("gateway")
    running = Gateway(folder / "data", documented_settings(folder))
    yield running
    running.stop()


@pytest.fixture
def real_tenant(real_gateway: Gateway) -> Tenant:
    """As `tenant`, of `real_gateway`."""
    return real_gateway.tenant()

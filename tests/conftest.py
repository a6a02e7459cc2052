"""Fixtures for every test that wants a running gateway."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from gateway_kit import Gateway, Tenant

# as the gateway sets it for its workers: spinning threads of a test and of a gateway would fight for the cores
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway on its embedded defaults for all tests; each test opens a tenant of its own."""
    running = Gateway(tmp_path_factory.mktemp("gateway") / "data")
    yield running
    running.stop()


@pytest.fixture
def tenant(gateway: Gateway) -> Tenant:
    """A fresh tenant with a budget of 1000 in every unit."""
    return gateway.tenant()

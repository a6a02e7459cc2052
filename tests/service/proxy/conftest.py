"""One gateway in front of a stub of a language model, for the tests of the vault and of fills with a price."""

from collections.abc import Iterator

import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway, opened_gateway
from model_kit import ModelServer, last_text
from proxy_kit import POLICIES


@pytest.fixture(scope="session")
def stub() -> Iterator[ModelServer]:
    with ModelServer() as stub:
        yield stub


@pytest.fixture
def llm(stub: ModelServer) -> ModelServer:
    """The stub, as it was at first."""
    stub.bodies.clear()
    stub.headers.clear()
    stub.reply, stub.status, stub.response_id, stub.last = last_text, 200, "r*", str
    return stub


@pytest.fixture(scope="session")
def proxying(stub: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder, changes = tmp_path_factory.mktemp("proxying"), {"vault_entries_max": 6, "vault_entry_bytes_max": 4096}
    with opened_gateway(folder, {}, policies=POLICIES, changes=changes, UPSTREAMS=stub.setting) as gateway:
        yield gateway


@pytest.fixture
def tenant(proxying: Gateway) -> Tenant:
    return proxying.tenant()

"""One gateway in front of a stub of a language model, for the tests of the vault and of fills with a price."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from inprocess_kit import Gateway
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
    stub.reply, stub.status, stub.response_id = last_text, 200, "r*"
    return stub


@pytest.fixture(scope="session")
def proxying(stub: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("proxying")
    (folder / "policies.toml").write_text(POLICIES)
    gateway = Gateway(
        folder / "data",
        {
            "PRIVACY_GATEWAY_UPSTREAMS": stub.setting,
            "PRIVACY_GATEWAY_POLICIES_FILE": str(folder / "policies.toml"),
            "PRIVACY_GATEWAY_VAULT_ENTRIES_MAX": "12",
            "PRIVACY_GATEWAY_VAULT_ENTRY_BYTES_MAX": "4096",
        },
    )
    yield gateway
    gateway.stop()

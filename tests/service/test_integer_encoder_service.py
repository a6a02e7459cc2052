"""A gateway whose encoder computes in 8-bit integers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from command_kit import refused_settings
from inprocess_kit import Gateway

from core.ledger.stored_files import DOMAINS
from gpu_workers.models.encoder import bundled_fingerprint
from gpu_workers.packs import pack_paths

INT8 = {"PRIVACY_GATEWAY_ENCODER_PRECISION": "int8"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(tmp_path_factory.mktemp("int8"), INT8)
    yield running
    running.stop()


@pytest.mark.slow("process")
def test_shipped_packs_and_those_of_a_tenant_serve_its_vectors(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1000, vector={"epsilon": 1000})
    gateway.on_loop(gateway.service.files.put(tenant.name, DOMAINS, "own", {".safetensors": pack_paths()["general"]}))
    for domain in ("general", "own", "auto"):
        answer = tenant.embed(domain=domain, epsilon=10)
        assert answer.status_code == 200, answer.text
    released = tenant.http.post("/embed/vector", json={"texts": ["The parcel was late."], "epsilon": 10.0})
    assert released.status_code == 200, released.text
    assert np.shape(released.json()["data"][0]["embedding"]) == (384,)

    (encoder,) = (m["encoder"] for m in tenant.http.get("/models").json()["models"] if m["role"] == "embed")
    assert encoder["dtype"] == "int8"
    assert encoder["packs_of"] == bundled_fingerprint() != encoder["fingerprint"]
    assert encoder["tokens_per_s"] > 0


@pytest.mark.slow("process")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("ENCODER_PATH", "/encoder", "remove ENCODER_PATH"), ("DEVICES", '["cuda:0"]', "must be `auto` or `cpu`")],
)
def test_settings_that_do_not_fit_it_are_refused(
    name: str, value: str, said: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert said in refused_settings(tmp_path_factory.mktemp("refused"), INT8 | {f"PRIVACY_GATEWAY_{name}": value})

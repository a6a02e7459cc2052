"""The numbers that a gateway's encoder computes in: 8-bit integers by default, floating point where chosen."""

import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from command_kit import refused_settings
from inprocess_kit import Gateway
from tiers import cells

from core.state.stored_files import DOMAINS
from gpu_workers.handlers.embedder import Embedder
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.models.encoder import bundled_fingerprint
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.packs import pack_paths
from service.config.settings import precision_of_workers
from service.files.stored import StoredFiles

INT8 = {"PRIVACY_GATEWAY_ENCODER_PRECISION": "int8"}
FLOATING = ("float32", "bfloat16", "float16")
DTYPES = {"int8": ("int8",), "float": FLOATING, "auto": ("int8", *FLOATING)}

on_x86_64 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or torch.cuda.is_available(),
    reason="the default is int8 on processors of x86-64 alone",
)


@pytest.fixture(scope="module", params=["default", "int8", "float"])
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    chosen = {} if request.param == "default" else {"PRIVACY_GATEWAY_ENCODER_PRECISION": request.param}
    running = Gateway(tmp_path_factory.mktemp("precision"), chosen)
    yield running
    running.stop()


@pytest.mark.slow("process")
def test_shipped_packs_and_those_of_a_tenant_serve_each_precision(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1000, vector={"epsilon": 1000})
    gateway.on_loop(
        gateway.service.parts[StoredFiles].put(tenant.name, DOMAINS, "own", {".safetensors": pack_paths()["general"]})
    )
    for domain in ("general", "own", "auto"):
        answer = tenant.embed(domain=domain, epsilon=10)
        assert answer.status_code == 200, answer.text
    released = tenant.http.post("/embed/vector", json={"texts": ["The parcel was late."], "epsilon": 10.0})
    assert released.status_code == 200, released.text
    assert np.shape(released.json()["data"][0]["embedding"]) == (384,)

    (encoder,) = (m["encoder"] for m in tenant.http.get("/models").json()["models"] if m["role"] == "embed")
    assert encoder["tokens_per_s"] > 0
    assert encoder["dtype"] in DTYPES[gateway.settings.encoder_precision]
    assert encoder["packs_of"] == bundled_fingerprint() != encoder["fingerprint"]
    assert len(encoder["arithmetic"]) == 64


@on_x86_64
@pytest.mark.parametrize(
    ("options", "integers"),
    cells(
        [
            (WorkerOptions(), True),
            (WorkerOptions(device="auto"), True),
            (WorkerOptions(encoder_precision="float"), False),
            (WorkerOptions(encoder_path=str(bundled_path())), False),
        ]
    ),
)
def test_the_bundled_encoder_computes_in_integers_by_default(options: WorkerOptions, integers: bool) -> None:
    encoder = Embedder(options).warm_up().encoder
    assert (encoder.dtype == "int8") is integers


def test_all_workers_of_a_gateway_compute_in_one_space() -> None:
    assert precision_of_workers("auto", None, ["auto", "auto"]) == "auto"
    assert precision_of_workers("auto", None, ["cpu", "cpu"]) == "auto"
    assert precision_of_workers("auto", None, ["cpu", "auto"]) == "float"  # the second may be a GPU
    assert precision_of_workers("auto", None, ["cpu", "cuda:0"]) == "float"
    assert precision_of_workers("auto", bundled_path(), ["cpu"]) == "float"
    assert precision_of_workers("int8", None, ["cpu"]) == "int8"


def test_settings_that_do_not_fit_int8_are_refused(tmp_path: Path) -> None:
    for name, value, said in (
        ("ENCODER_PATH", "/encoder", "remove ENCODER_PATH"),
        ("DEVICES", '["cuda:0"]', "must be `auto` or `cpu`"),
        ("DEVICES", '["cpu", "cuda:0"]', "must be of one kind"),
    ):
        assert said in refused_settings(tmp_path, INT8 | {f"PRIVACY_GATEWAY_{name}": value})

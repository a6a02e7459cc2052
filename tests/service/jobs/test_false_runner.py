"""A job runner that draws noise for jobs whose charge it never asked for: nothing is released, nothing is charged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from corpus_kit import until, until_no_folders
from finetune_http_kit import NOTHING, RECORD, costs, submit, transitions
from finetune_kit import checkpoint, labelled
from gateway_kit import LEAN, Tenant
from held_kit import KITS, short_folder
from held_runner import TOKEN
from inprocess_kit import Gateway
from synthesis_kit import shop_request, shop_rows


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose one runner is false."""
    folder = tmp_path_factory.mktemp("false")
    models = json.dumps({"tiny": str(checkpoint(folder, "bert"))})
    with short_folder() as sockets:
        address = f"unix:{sockets}/runner"
        command = [sys.executable, str(KITS / "false_runner.py"), address, str(folder / "runner"), models]
        path = os.pathsep.join([str(KITS), str(KITS.parents[1])])
        runner = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path})
        settings = LEAN | {
            "PRIVACY_GATEWAY_JOBS": "remote",
            "PRIVACY_GATEWAY_WORKERS": json.dumps([f"jobs={address}"]),
            "PRIVACY_GATEWAY_WORKERS_TOKEN": TOKEN,
            "PRIVACY_GATEWAY_FINETUNE_MODELS": models,
        }
        running = Gateway(folder / "data", settings)
        yield running
        running.stop()
        runner.terminate()
        assert runner.wait(120) == 0


@pytest.fixture
def tenant(gateway: Gateway) -> Tenant:
    return gateway.tenant(record=RECORD)


def synthesis(tenant: Tenant) -> httpx.Response:
    body = shop_request(method="marginals") | {"rows": shop_rows(100)}
    return tenant.http.post("/jobs/synthesis", json=body)


def classifier(tenant: Tenant) -> httpx.Response:
    """Without a public split, whose metrics would show the noise before the end does."""
    return submit(tenant, model="tiny", private=labelled(40), public=None)


def measured_classifier(tenant: Tenant) -> httpx.Response:
    return submit(tenant, model="tiny")


CHARGED = {"synthesis": synthesis, "finetune": classifier}


def test_every_kind_that_charges_is_tried(gateway: Gateway) -> None:
    kinds = gateway.service.job_kinds
    assert {name for name, kind in kinds.items() if kind.estimate is not None} == CHARGED.keys()


@pytest.mark.parametrize(
    "send",
    [
        synthesis,
        pytest.param(classifier, marks=pytest.mark.slow("training")),
        pytest.param(measured_classifier, marks=pytest.mark.slow("training")),
    ],
    ids=lambda send: send.__name__,
)
def test_nothing_is_released_and_nothing_charged(
    gateway: Gateway, tenant: Tenant, send: Callable[[Tenant], httpx.Response]
) -> None:
    created = send(tenant)
    assert created.status_code == 202, created.text
    job_id = created.json()["job_id"]
    failed = until(tenant.http, job_id)
    assert (failed["status"], failed["attempts"]) == ("failed", 1), failed
    problem: dict[str, Any] = failed["problem"]
    assert (problem["code"], problem["reason"]) == ("job-failed", "not-charged")
    assert failed.get("result") is None
    assert failed.get("metrics") is None
    assert costs(failed) == costs(tenant.account("record"), "committed") == (NOTHING, NOTHING)
    assert transitions(tenant) == ["open", "reserve", "cancel"]
    for part in ("artifact", "card", "report"):
        assert not tenant.http.get(f"/jobs/{job_id}/{part}").is_success
    until_no_folders(gateway.data_dir / "jobs")
    stored = gateway.data_dir / "store" / "files" / "tenants" / tenant.name
    assert not stored.exists() or not list(stored.iterdir())

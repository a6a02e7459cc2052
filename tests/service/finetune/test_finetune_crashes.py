"""A private fine-tuning outlives Redis and the gateway: no step without the ledger, none too many, one charge."""

import json
import os
import signal
from collections.abc import Iterator

import pytest
import tiny_models
from corpus_kit import PLANTED, files_holding, until, until_deleted
from finetune_http_kit import NOTHING, RECORD, costs, stream, transitions, until_reported
from finetune_kit import labelled
from gateway_kit import LEAN, Gateway, has_loaded, until_idle
from transformers import AutoModel

pytestmark = pytest.mark.slow("crash")

STEPS = 300


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway of its own, for it is killed."""
    folder = tmp_path_factory.mktemp("crashing")
    encoder = tiny_models.checkpoint(folder / "tiny", "bert", AutoModel)
    settings = {"PRIVACY_GATEWAY_FINETUNE_MODELS": json.dumps({"tiny": str(encoder)})}
    gateway = Gateway(folder / "data", LEAN | settings)
    yield gateway
    gateway.stop()


def test_it_outlives_redis_and_gateway_and_is_charged_once(gateway: Gateway) -> None:
    owner = gateway.tenant(record=RECORD)
    private = labelled(200)
    private[5]["text"] = PLANTED
    created = stream(owner, private, rows=200, batch=50, steps=STEPS, model="tiny")
    assert created.status_code == 202, created.text
    job_id, cost = created.json()["job_id"], created.json()["reserved"]
    folder = gateway.data_dir / "jobs" / job_id
    process = gateway.until_child("gpu_workers.jobs")
    redis = gateway.pid_of("redis-server")
    os.kill(redis, signal.SIGSTOP)
    try:
        until_idle(process)
        assert has_loaded(process, "libtorch"), "it has come as far as the charge"
        assert not (folder / "training").exists(), "no step without the ledger"
    finally:
        os.kill(redis, signal.SIGCONT)

    until_reported(owner, job_id, 1)
    assert costs(owner.account("record"), "committed") == (cost, NOTHING)
    gateway.kill("redis-server")
    gateway.wait_ready()
    until_reported(owner, job_id, 100)
    gateway.die()

    gateway.start()
    owner = gateway.reconnected(owner)
    done = until(owner.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 2), done
    assert done["metrics"]["step"] == done["result"]["steps"] == STEPS
    assert costs(done) == costs(owner.account("record"), "committed") == (cost, NOTHING)
    assert transitions(owner) == ["open", "reserve", "commit"]
    until_deleted(folder)
    assert not files_holding(gateway, [PLANTED.encode()])

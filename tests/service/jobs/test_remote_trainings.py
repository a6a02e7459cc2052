"""Whole trainings on job runners: from the request to the released model and its use, over the death of a runner."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_models
import torch
from corpus_kit import PLANTED, files_holding, job, json_lines, rows, until, until_deleted
from finetune_http_kit import NOTHING, RECORD, costs, events, stream, terms, transitions, until_reported
from finetune_kit import LABELS, labelled, texts
from gateway_kit import Gateway
from held_kit import eventually, short_folder
from job_runner_kit import CommandRunner, uses_runners
from transformers import AutoModel

from gpu_workers.finetune.artifact import load_classifier
from gpu_workers.finetune.batches import Rows
from gpu_workers.finetune.evaluation import measure

pytestmark = pytest.mark.slow("training")

STEPS = 200
ADDRESS = "jo@example.org"
RunnerOf = Callable[[str], CommandRunner]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.checkpoint(tmp_path_factory.mktemp("encoder") / "tiny", "bert", AutoModel)


@pytest.fixture(scope="module")
def sockets() -> Iterator[Path]:
    with short_folder() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def gateway(encoder: Path, sockets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway without places for jobs of its own."""
    settings = uses_runners(*(f"unix:{sockets}/{name}" for name in ("first", "second")))
    settings |= {"PRIVACY_GATEWAY_FINETUNE_MODELS": json.dumps({"tiny": str(encoder)}), "PRIVACY_GATEWAY_TAGGER": "off"}
    running = Gateway(tmp_path_factory.mktemp("trainings") / "data", settings)
    yield running
    running.stop()


@pytest.fixture
def runner(encoder: Path, sockets: Path, tmp_path: Path) -> Iterator[RunnerOf]:
    """Starts a runner that has the encoder at a path of its own."""
    started: list[CommandRunner] = []

    def start(name: str) -> CommandRunner:
        own = shutil.copytree(encoder, tmp_path / f"{name}-encoder")
        settings = {"PRIVACY_GATEWAY_FINETUNE_MODELS": json.dumps({"tiny": str(own)})}
        started.append(CommandRunner(f"unix:{sockets}/{name}", tmp_path / name, settings=settings))
        return started[-1]

    yield start
    for one in started:
        one.end()


def until_queued(http: Any, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = eventually(lambda: (now := job(http, job_id))["status"] == "queued" and now)
    return found


def test_a_classifier_survives_its_runner_and_classifies(
    gateway: Gateway, runner: RunnerOf, encoder: Path, tmp_path: Path
) -> None:
    owner = gateway.tenant(record=RECORD)
    fields: dict[str, Any] = {"rows": 200, "batch": 50, "steps": STEPS, "model": "tiny", "learning_rate": 0.01}
    estimate = owner.http.post("/budget/estimate", json=terms(**fields)).json()
    cost = estimate["accounts"][0]["cost"]
    private = labelled(200)
    private[5]["text"] = PLANTED
    first = runner("first")
    created = stream(owner, [*private, *labelled(20, split="public")], **fields)
    assert created.status_code == 202, created.text
    job_id = created.json()["job_id"]
    before = until_reported(owner, job_id, 50)
    assert costs(before) == costs(owner.account("record"), "committed") == (cost, NOTHING)
    (work,) = first.folders
    assert not first.files_holding([PLANTED.encode()])
    first.kill()
    waiting = until_queued(owner.http, job_id)
    assert (waiting["attempts"], costs(waiting)) == (1, (cost, NOTHING))
    assert work.exists()
    assert not first.files_holding([PLANTED.encode()])

    second = runner("second")
    states = events(owner, job_id)
    steps = [state["metrics"]["step"] for state in states]
    assert [waiting["metrics"]["step"], *steps] == sorted([waiting["metrics"]["step"], *steps]), (
        "it goes on from the checkpoint"
    )
    done = states[-1]
    assert (done["status"], done["attempts"]) == ("succeeded", 2), done
    assert done["metrics"]["step"] == done["result"]["steps"] == STEPS
    assert costs(done) == costs(owner.account("record"), "committed") == (cost, NOTHING)
    assert done["result"]["certificate"] == estimate["privacy"]["certificate"]
    assert transitions(owner) == ["open", "reserve", "commit"]
    path = tmp_path / "towns.safetensors"
    path.write_bytes(owner.http.get(f"/jobs/{job_id}/artifact").content)
    assert owner.http.get(f"/jobs/{job_id}/card").status_code == 200
    info, base, model = load_classifier(path, encoder)
    assert (info.labels, info.steps, info.epsilon) == (LABELS, STEPS, done["result"]["certificate"]["epsilon"])
    public = Rows(base, texts(20), [row % 2 for row in range(20)], device=torch.device("cpu"))
    assert measure(model, public).accuracy == done["metrics"]["public_accuracy"], (
        "it classifies as the job has measured"
    )
    eventually(lambda: not second.folders)
    until_deleted(gateway.data_dir / "jobs" / job_id)
    assert not files_holding(gateway, [PLANTED.encode()])
    assert not second.files_holding([PLANTED.encode()])


def test_a_classifier_survives_its_gateway(gateway: Gateway, runner: RunnerOf) -> None:
    """The runner ends the process of a gateway that died, and runs the next attempt of the job."""
    owner = gateway.tenant(record=RECORD)
    one = runner("first")
    created = stream(owner, labelled(200), rows=200, batch=50, steps=STEPS, model="tiny")
    assert created.status_code == 202, created.text
    job_id, cost = created.json()["job_id"], created.json()["reserved"]
    before = until_reported(owner, job_id, 50)["metrics"]["step"]
    (work,) = one.folders
    gateway.die()
    eventually(lambda: not work.exists(), "the runner keeps what a dead gateway has left")

    gateway.start()
    owner = gateway.reconnected(owner)
    states = events(owner, job_id)
    steps = [state["metrics"]["step"] for state in states]
    assert [before, *steps] == sorted([before, *steps]), "it goes on from the checkpoint"
    done = states[-1]
    assert (done["status"], done["attempts"]) == ("succeeded", 2), done
    assert done["metrics"]["step"] == done["result"]["steps"] == STEPS
    assert costs(done) == costs(owner.account("record"), "committed") == (cost, NOTHING)
    assert transitions(owner) == ["open", "reserve", "commit"]


def test_a_model_that_fills_survives_its_runner_and_fills(gateway: Gateway, runner: RunnerOf) -> None:
    tenant = gateway.tenant()
    corpus = [*rows(19), {"text": f"{rows(1, seed=7)[0]['text']} {PLANTED} Write to {ADDRESS}."}]
    mask = json.dumps({"techniques": ["entity"], "entities": ["EMAIL_ADDRESS"]})
    needles = [b"zanzibar", ADDRESS.encode()]
    first = runner("first")
    created = tenant.http.post(
        "/jobs/infill",
        params={"name": "own", "steps": "25", "mask": mask},
        content=json_lines(corpus),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert created.status_code == 202, created.text
    job_id = created.json()["job_id"]
    checkpoint = gateway.data_dir / "jobs" / job_id / "training-1"
    eventually(checkpoint.exists, "the gateway gets no checkpoint")
    assert not first.files_holding(needles)
    first.kill()
    assert until_queued(tenant.http, job_id)["attempts"] == 1

    second = runner("second")
    done = until(tenant.http, job_id)
    assert (done["status"], done["attempts"]) == ("succeeded", 2), done
    assert (done["result"]["documents"], done["result"]["places"]) == (20, 1)
    facts = {"name": "own", "usable": True, "documents": 20, "rounds": 1, "steps": 25}
    assert tenant.http.get("/models").json()["fine_tuned"] == [facts]
    body = {
        "documents": [{"text": "The parcel went to Zworykin near our house."}],
        "mask": {"techniques": ["vocabulary"], "vocabulary_size": 20_000},
        "fill": {"mode": "top1", "model": "own"},
    }
    filled = tenant.http.post("/sanitize", json=body)
    assert filled.status_code == 200, filled.text
    assert "fine-tuned" in filled.json()["privacy"]["note"]
    text = filled.json()["data"][0]["text"]
    assert text.startswith("The parcel went to ")
    assert "Zworykin" not in text
    assert (tenant.committed("token"), done["spent"]) == (0, NOTHING)
    eventually(lambda: not second.folders)
    assert not files_holding(gateway, needles)
    assert not second.files_holding(needles)

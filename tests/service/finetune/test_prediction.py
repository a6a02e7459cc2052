"""What a fine-tuned classifier answers over HTTP: to its tenant alone, at no cost, and never in a log."""

import json
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from finetune_kit import CPU, LABELS, Memory
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway

from core.accounting.plans import Certificate
from core.finetune.inputs import Hyperparameters, Split
from core.finetune.plan import PrivacyPlan
from core.state.stored_files import CLASSIFIERS
from gpu_workers.finetune.artifact import LoadedClassifier, save_classifier
from gpu_workers.finetune.gradients import Method
from gpu_workers.finetune.training import Task, fine_tune
from privacy_gateway_client import Gateway as Client
from privacy_gateway_client.cli import main as command
from privacy_gateway_client.errors import InvalidRequest
from privacy_gateway_client.options import Limits
from service.files.stored import StoredFiles

SECRET = "the zanzibar walrus"

gateway = module_gateway()


def trained(path: Path, *, pairs: bool = False, labels: tuple[str, ...] = LABELS) -> Path:
    """A classifier of the bundled encoder, trained with next to no noise on rows that are easy to tell apart."""
    second = (" we met",) if pairs else ()
    rows = [(f"the {word} was here, {number}", *second) for number in range(10) for word in ("dog", "bank")]
    plan = PrivacyPlan(8.0, 1e-4, len(rows), len(rows), 3, 1e-3, Certificate(8.0, 1e-4, 0.0))
    task = Task(labels=labels, pairs=pairs, method=Method.LORA, hyperparameters=Hyperparameters(pieces_max=16))
    split = Split(rows, [labels[0], labels[1]] * 10)
    torch.manual_seed(3)
    made = fine_tune(split, None, task, plan, base_path=None, device=CPU, checkpoint=Memory(), report=lambda _: None)
    save_classifier(path, made.info, made.tensors)
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("classifier") / "animals.safetensors")


def install(gateway: Gateway, tenant: Tenant, path: Path, name: str = "animals") -> None:
    """As the end of a job does."""
    stored = gateway.service.parts[StoredFiles]
    gateway.on_loop(stored.put(tenant.name, CLASSIFIERS, name, {".safetensors": path}))


@pytest.fixture
def owner(gateway: Gateway, tenant: Tenant, file: Path) -> Tenant:
    install(gateway, tenant, file)
    return tenant


def predict(tenant: Tenant, name: str = "animals", **body: Any) -> Any:
    return tenant.http.post(f"/finetuned/{name}/predict", json=body)


def test_its_tenant_gets_labels_and_scores_and_pays_nothing(
    owner: Tenant, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [f"a bank for {SECRET}", "the dog was here", "the bank was here"]
    with caplog.at_level(logging.DEBUG):
        answer = predict(owner, texts=texts)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["model"], found["labels"], found["budget"]) == ("animals", list(LABELS), None)
    assert [row["index"] for row in found["data"]] == [0, 1, 2]
    assert [row["label"] for row in found["data"][1:]] == list(LABELS)
    own = LoadedClassifier(file, {}, device=CPU).probabilities([(text,) for text in texts])
    assert np.allclose([row["scores"] for row in found["data"]], own, atol=1e-5)
    privacy = found["privacy"]
    assert privacy["guarantee"] == "none"
    assert "post-processing" in privacy["note"]
    assert (privacy["training"]["epsilon"], privacy["training"]["unit"]) == (8.0, "record")
    assert owner.committed("record") == owner.committed() == 0
    assert SECRET not in caplog.text


def test_a_tenant_sees_its_own_classifiers_and_may_delete_them(gateway: Gateway, owner: Tenant) -> None:
    other = gateway.tenant()
    answer = predict(other, texts=["a"])
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-model")
    assert other.http.get("/finetuned").json() == {"classifiers": []}
    assert other.http.delete("/finetuned/animals").status_code == 404
    (shown,) = owner.http.get("/finetuned").json()["classifiers"]
    assert (shown["name"], shown["usable"], shown["labels"], shown["epsilon"]) == ("animals", True, list(LABELS), 8.0)
    assert owner.http.delete("/finetuned/animals").status_code == 204
    assert predict(owner, texts=["a"]).status_code == 404


def refused() -> Iterator[tuple[dict[str, Any], str]]:
    """The body, and the member that the answer names."""
    yield {}, "texts"
    yield {"texts": []}, "texts"
    yield {"texts": "a"}, "texts"
    yield {"texts": ["a", 3]}, "texts.1"
    yield {"texts": ["a", None]}, "texts.1"
    yield {"texts": ["a", "  "]}, "texts.1"
    yield {"texts": [SECRET * 60_000]}, "texts.0"
    yield {"texts": ["a"] * 2_049}, "texts"
    yield {"texts": ["a"], "text_pairs": [SECRET]}, "text_pairs"
    yield {"texts": ["a"], "text_pairs": None, "walruses": SECRET}, "walruses"
    yield {"documents": ["a"]}, "documents"


def test_what_cannot_be_read_is_refused_by_its_member_alone(owner: Tenant) -> None:
    for body, field in refused():
        answer = predict(owner, **body)
        assert answer.status_code == 422, (field, answer.text)
        errors = answer.json()["errors"]
        assert errors[0]["field"].removeprefix("body.") == field, answer.text
        assert SECRET not in answer.text
    for name in ("..", "a b", "n" * 200, "missing"):
        assert predict(owner, name, texts=["a"]).status_code == 404, name


def test_a_classifier_of_pairs_takes_pairs(gateway: Gateway, owner: Tenant, tmp_path: Path) -> None:
    install(gateway, owner, trained(tmp_path / "pairs.safetensors", pairs=True), "pairs")
    answer = predict(owner, "pairs", texts=["the dog was here", "the bank was here"], text_pairs=["we met", "we met"])
    assert [row["label"] for row in answer.json()["data"]] == list(LABELS)
    for wrong in ({"texts": ["a"]}, {"texts": ["a"], "text_pairs": []}, {"texts": ["a", "b"], "text_pairs": ["c"]}):
        assert predict(owner, "pairs", **wrong).json()["errors"][0]["field"] == "text_pairs"


def test_a_file_that_is_no_classifier_is_an_error_and_not_an_answer(
    gateway: Gateway, owner: Tenant, tmp_path: Path
) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(b"no tensors")
    install(gateway, owner, path, "broken")
    assert predict(owner, "broken", texts=["a"]).status_code == 422
    assert [row["usable"] for row in owner.http.get("/finetuned").json()["classifiers"]] == [True, False]


def test_many_texts_are_classified_in_pieces_and_stay_in_order(owner: Tenant) -> None:
    texts = [("the dog was here " if row % 3 else "the bank was here ") + "so " * (row % 40) for row in range(400)]
    data = predict(owner, texts=texts).json()["data"]
    assert [row["index"] for row in data] == list(range(400))
    each = [predict(owner, texts=[text]).json()["data"][0] for text in texts[:4]]
    assert np.allclose([row["scores"] for row in data[:4]], [row["scores"] for row in each], atol=1e-5)


def test_the_client_splits_many_texts_and_keeps_their_order(gateway: Gateway, owner: Tenant) -> None:
    texts = ["the bank was here" if row % 3 else "the dog was here" for row in range(7)]
    with Client("http://gateway", owner.key, transport=gateway.transport, limits=Limits(vector_texts=3)) as client:
        found = client.models.predict("animals", texts)
        assert [row.index for row in found.data] == list(range(7))
        assert [row.label for row in found.data] == [LABELS[int(row % 3 > 0)] for row in range(7)]
        assert [row["name"] for row in client.models.classifiers()] == ["animals"]
        with pytest.raises(InvalidRequest, match=r"texts\.4"):
            client.models.predict("animals", [*texts[:4], "  "])
        with pytest.raises(TypeError):
            client.models.predict("animals", [1])
        client.models.delete_classifier("animals")
        assert client.models.classifiers() == []


def test_the_command_writes_a_line_for_each_text(
    gateway: Gateway, owner: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(command.KEY_VARIABLE, owner.key)
    monkeypatch.setattr(command, "Gateway", partial(Client, transport=gateway.transport))
    (tmp_path / "a.txt").write_text("the dog was here\nthe bank was here\n")
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "x", "text": "the dog was here"}))
    url = ("--url", "http://gateway")
    assert command.main(["predict", "animals", str(tmp_path / "a.txt"), "--out", str(tmp_path / "b"), *url]) == 0
    lines = [json.loads(line) for line in (tmp_path / "b").read_text().splitlines()]
    assert [line["label"] for line in lines] == list(LABELS)
    assert set(lines[0]["scores"]) == set(LABELS)
    assert command.main(["predict", "animals", str(tmp_path / "a.jsonl"), *url]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "x"
    assert command.main(["predict", "missing", str(tmp_path / "a.txt"), *url]) == command.FAILED

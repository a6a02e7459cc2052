"""Each capability with workers, jobs or calculations, once over HTTP against a real gateway and its processes."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from corpus_kit import rows, until
from finetune_http_kit import RECORD, submit, tiny_encoder
from finetune_http_kit import terms as training
from gateway_kit import DOCUMENT, Gateway, Tenant, documented_settings
from safetensors.numpy import load, save
from synthesis_kit import shop_request, shop_rows

ADDRESS = "jo@example.org"


@pytest.fixture(scope="module")
def real_gateway(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """As everywhere, and started as an operator starts it."""
    folder = tmp_path_factory.mktemp("started")
    running = Gateway(folder / "data", documented_settings(folder), forked=False)
    yield running
    running.stop()


def succeeded(tenant: Tenant, created: httpx.Response) -> dict[str, Any]:
    """The job that this answer made, once it has succeeded."""
    assert created.status_code == 202, created.text
    done = until(tenant.http, created.json()["job_id"])
    assert done["status"] == "succeeded", done
    return done


def test_sentence_embeddings(real_tenant: Tenant) -> None:
    answer = real_tenant.embed([{"text": DOCUMENT}, {"sentences": ["One.", "Two."]}], epsilon=2).json()
    assert [len(row["embedding"]) for row in answer["data"]] == [384, 384]
    assert answer["privacy"]["guarantee"] == "pure-dp"
    assert real_tenant.committed() == 4.0


def test_private_vectors(real_tenant: Tenant) -> None:
    body = {"texts": [DOCUMENT, "A short text."], "epsilon": 8}
    assert len(real_tenant.http.post("/embed/vector", json=body).json()["data"]) == 2
    terms = {"request": json.dumps({"epsilon": 4})}
    content = save({"vectors": np.eye(8, dtype=np.float32)}, metadata=terms)
    types = {"Content-Type": "application/vnd.safetensors"}
    answer = real_tenant.http.post("/embed/vector/safetensors", content=content, headers=types)
    assert answer.status_code == 200, answer.text
    assert load(answer.content)["embeddings"].shape == (8, 8)
    assert real_tenant.committed("vector") == 32.0


def test_sanitised_text(real_tenant: Tenant) -> None:
    documents = [{"text": f"Maria Keller wrote to {ADDRESS}."}]
    for fill in ({"mode": "marker"}, {"mode": "surrogate"}, {"mode": "top1"}):
        answer = real_tenant.http.post("/sanitize", json={"documents": documents, "fill": fill})
        assert answer.status_code == 200, answer.text
        assert ADDRESS not in answer.text
        assert "Keller" not in answer.text
    streamed = real_tenant.sanitize_lines(*documents * 3).text.splitlines()
    assert [json.loads(line)["text"] for line in streamed[:3]] == ["[PERSON] wrote to [EMAIL_ADDRESS]."] * 3
    assert json.loads(streamed[3])["summary"]["complete"] is True


def test_accountants(real_tenant: Tenant) -> None:
    plan = {"mechanism": {"kind": "subsampled_gaussian", "sampling_rate": 0.01, "noise_multiplier": 1.0}, "steps": 100}
    answer = real_tenant.http.post("/accounting/compare", json=plan | {"delta": 1e-5})
    assert answer.status_code == 200, answer.text


def test_a_fill_model_is_tuned_and_fills(real_tenant: Tenant) -> None:
    body = {"name": "own", "documents": [*rows(19), {"text": f"Write to {ADDRESS}."}], "steps": 2}
    done = succeeded(real_tenant, real_tenant.http.post("/jobs/infill", json=body))
    assert done["result"]["privacy"]["guarantee"] == "none"
    fill = {"mode": "top1", "model": "own"}
    answer = real_tenant.http.post("/sanitize", json={"documents": [{"text": f"To {ADDRESS}"}], "fill": fill})
    assert answer.status_code == 200, answer.text
    assert ADDRESS not in answer.text


@pytest.mark.parametrize("method", ["marginals", "pearl", "aim"])
def test_a_table_is_synthesised_and_sampled(real_gateway: Gateway, method: str) -> None:
    tenant = real_gateway.tenant(record=RECORD)
    done = succeeded(tenant, tenant.http.post("/jobs/synthesis", json=shop_request(method=method, rows=shop_rows(60))))
    assert done["spent"] == tenant.account("record")["committed"]
    sample = tenant.http.post(f"/jobs/{done['job_id']}/sample", json={"rows": 7})
    assert len(sample.text.splitlines()) == 7


def test_a_classifier_is_trained_privately(real_gateway: Gateway) -> None:
    tenant = real_gateway.tenant(record=RECORD)
    tiny_encoder(real_gateway)
    estimate = tenant.http.post("/budget/estimate", json=training(model="tiny")).json()
    done = succeeded(tenant, submit(tenant, model="tiny"))
    assert done["spent"] == estimate["accounts"][0]["cost"]
    assert tenant.http.get(f"/jobs/{done['job_id']}/card").status_code == 200
    answer = tenant.http.post("/finetuned/towns/predict", json={"texts": ["Maria went to the shop", "So did I"]})
    assert answer.status_code == 200, answer.text
    assert {row["label"] for row in answer.json()["data"]} <= {"away", "home"}
    assert done["spent"] == tenant.account("record")["committed"]

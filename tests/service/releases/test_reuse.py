"""`REUSE_RETENTION_S`: what a tenant repeats is answered from the release that was paid for, and the answer says so."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_kit import DOCUMENT, Tenant, documented_presets
from inprocess_kit import Gateway, opened_gateway

from core.errors import LedgerUnavailable
from core.ledger.reuse import ReuseStore
from core.state.stored_files import DOMAINS
from gpu_workers.engine.protocol import Role
from gpu_workers.packs import pack_paths
from service.files.stored import StoredFiles

OTHER = "The hotel was quiet. Breakfast was late. The staff were kind. We would come back."
THIRD = "The train left on time. The seats were clean. A child sang. We arrived early."


@pytest.fixture(scope="module")
def thrifty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("thrifty")
    (folder / "presets.toml").write_text(documented_presets())
    with opened_gateway(folder, REUSE_RETENTION_S="3600", PRESETS_FILE=str(folder / "presets.toml")) as gateway:
        yield gateway


@pytest.fixture
def saver(thrifty: Gateway) -> Tenant:
    return thrifty.tenant()


def vectors(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [row["embedding"] for row in answer.json()["data"]]


def origins(answer: httpx.Response) -> list[str | None]:
    """The earlier release that each row was taken from."""
    assert answer.status_code == 200, answer.text
    return [row.get("reused_from") for row in answer.json()["data"]]


def journal(tenant: Tenant) -> list[Any]:
    return tenant.http.get(f"/budget/{tenant.name}/sentence/journal").json()["entries"]


def test_a_repeat_is_reported_as_the_same_release_free_of_charge(saver: Tenant) -> None:
    first = saver.embed([{"id": "a", "text": DOCUMENT}], epsilon=2)
    entries, account = journal(saver), saver.account()
    again = saver.embed([{"id": "b", "text": DOCUMENT}], epsilon=2)

    assert origins(first) == [None]
    assert first.json()["privacy"]["reused"] == 0
    release_id = first.json()["privacy"]["release_id"]
    assert origins(again) == [release_id]
    assert vectors(again) == vectors(first)
    body = again.json()
    assert body["data"][0]["id"] == "b"
    assert body["privacy"]["reused"] == 1
    assert body["privacy"]["repeats"] == first.json()["privacy"]["repeats"] == "public"
    assert "release_id" not in body["privacy"], "nothing was released"
    assert "release-id" not in again.headers
    assert "idempotency-key" not in again.headers
    assert body["budget"]["committed"] == first.json()["budget"]["committed"] == {"epsilon": 2.0, "delta": 0.0}
    assert body["usage"] == first.json()["usage"]
    assert (journal(saver), saver.account()) == (entries, account)
    metrics = saver.http.get("/metrics").text
    assert f'gateway_reused_epsilon_total{{tenant="{saver.name}",unit="sentence"}} 2.0' in metrics


def test_of_a_call_the_new_documents_alone_are_charged(saver: Tenant) -> None:
    first = saver.embed([{"text": DOCUMENT}, {"text": OTHER}], epsilon=2)
    mixed = saver.embed([{"text": OTHER}, {"text": THIRD}, {"text": DOCUMENT}], epsilon=2)

    earlier, own = (answer.json()["privacy"]["release_id"] for answer in (first, mixed))
    assert origins(mixed) == [earlier, None, earlier]
    assert [vectors(mixed)[0], vectors(mixed)[2]] == vectors(first)[::-1]
    assert mixed.json()["privacy"]["reused"] == 2
    assert mixed.json()["usage"]["documents"] == 3
    assert mixed.json()["budget"]["committed"]["epsilon"] == saver.committed() == 6.0
    assert origins(saver.embed([{"text": THIRD}], epsilon=2)) == [own]

    key = mixed.headers["idempotency-key"]
    replay = saver.embed(
        [{"text": OTHER}, {"text": THIRD}, {"text": DOCUMENT}], epsilon=2, headers={"Idempotency-Key": key}
    )
    assert replay.content == mixed.content
    assert replay.headers["idempotency-replayed"] == "true"
    assert saver.embed(headers={"Idempotency-Key": key}).json()["code"] == "idempotency-conflict"
    assert saver.committed() == 6.0


def test_a_document_that_a_call_holds_twice_is_released_once(saver: Tenant) -> None:
    answer = saver.embed([{"text": DOCUMENT}, {"text": OTHER}, {"text": DOCUMENT}])
    assert vectors(answer)[0] == vectors(answer)[2]
    assert origins(answer) == [None, None, answer.json()["privacy"]["release_id"]]
    assert saver.committed() == 2.0


def test_what_is_another_release_is_charged(thrifty: Gateway) -> None:
    """Under a key of the caller's own it is neither reused nor kept: nobody learns from another answer that its content
    was repeated."""
    for change in (
        {"documents": [{"text": DOCUMENT + " And more."}]},
        {"documents": [{"text": DOCUMENT.replace("phone", "Phone")}]}, {"epsilon": 1.5},
        {"mechanism": "clipped_cosine"}, {"mechanism": "document_selection"}, {"headers": {"Idempotency-Key": "own"}},
    ):  # fmt: skip
        saver = thrifty.tenant()
        first = saver.embed()
        other = saver.embed(**dict(change))
        assert origins(other) == [None], change
        assert vectors(other) != vectors(first)
        assert saver.committed() == 1.0 + float(change.get("epsilon", 1.0))
    saver = thrifty.tenant()
    named = saver.embed(headers={"Idempotency-Key": "own"})
    assert not {"repeats", "reused"} & named.json()["privacy"].keys()
    assert origins(saver.embed()) == [None]


def test_the_form_of_request_and_answer_does_not_matter(saver: Tenant) -> None:
    """What is released depends on the sentences; how they came, or how the vector is written, is no new release."""
    release_id = saver.embed([{"sentences": ["One sentence.", "Another one."]}]).json()["privacy"]["release_id"]
    again = saver.embed([{"sentences": ["One sentence.", "Another one."]}], encoding_format="base64", domain="general")
    assert origins(again) == [release_id]
    assert isinstance(vectors(again)[0], str)
    assert origins(saver.embed([{"sentences": ["One sentence. Another one."]}])) == [None]


def test_nothing_is_reused_across_subjects(thrifty: Gateway) -> None:
    saver = thrifty.tenant(subject_epsilon=100)
    ada = saver.embed(subject="ada")
    both = saver.embed([{"text": DOCUMENT, "subject": "bob"}, {"text": DOCUMENT, "subject": "ada"}])
    assert origins(both) == [None, ada.json()["privacy"]["release_id"]]
    assert vectors(both)[1] == vectors(ada)[0] != vectors(both)[0]
    assert saver.committed() == 2.0
    nobody = saver.embed()
    assert (nobody.status_code, nobody.json()["code"]) == (422, "subject-required")
    reused = saver.embed(subject="bob").json()
    assert reused["budget"]["subject_hash"] == both.json()["budget"]["subject_hash"]


def test_an_exhausted_account_still_answers_what_it_has_paid_for(thrifty: Gateway) -> None:
    saver = thrifty.tenant(epsilon=1)
    assert saver.embed().status_code == 200
    refused = saver.embed([{"text": DOCUMENT}, {"text": OTHER}])
    denied = saver.embed([{"text": OTHER}])
    assert refused.status_code == denied.status_code == 403
    assert refused.json()["requested"] == {"epsilon": 1.0, "delta": 0.0}
    assert origins(saver.embed()) != [None]
    assert saver.embed([{"text": OTHER}]).status_code == 403
    assert saver.committed() == 1.0


def test_equal_requests_at_the_same_time_all_succeed(saver: Tenant) -> None:
    """Those that find no release yet are charged, each for a draw of its own."""
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: saver.embed(), range(8)))
    fresh = [answer for answer in answers if origins(answer) == [None]]
    drawn = {answer.json()["privacy"]["release_id"]: vectors(answer) for answer in fresh}
    assert saver.committed() == len(drawn) >= 1
    for answer in [*answers, saver.embed()]:
        if answer not in fresh:
            assert vectors(answer) == drawn[answer.json()["data"][0]["reused_from"]]
    assert saver.committed() == len(drawn)


def test_a_release_that_failed_is_not_reused(thrifty: Gateway, saver: Tenant) -> None:
    thrifty.kill_worker_at_work(Role.EMBED)
    assert saver.embed().status_code == 502
    assert origins(saver.embed()) == [None]
    assert saver.committed() == 2.0


def test_texts_are_reused_one_by_one(saver: Tenant) -> None:
    def embed(*texts: str, **fields: Any) -> httpx.Response:
        return saver.http.post("/embed/vector", json={"texts": texts, "epsilon": 4, **fields})

    first = embed(DOCUMENT, OTHER)
    mixed = embed(THIRD, OTHER, DOCUMENT, THIRD, encoding_format="float")

    earlier, own = (answer.json()["privacy"]["release_id"] for answer in (first, mixed))
    assert origins(mixed) == [None, earlier, earlier, own]
    assert vectors(mixed)[1:3] == vectors(first)[::-1]
    assert vectors(mixed)[3] == vectors(mixed)[0]
    assert mixed.json()["usage"] == {"vectors": 4}
    assert saver.committed() == 12.0
    whole = embed(OTHER, THIRD, encoding_format="base64")
    assert origins(whole) == [earlier, own]
    assert saver.committed() == 12.0
    assert origins(embed(OTHER, projection="orthonormal")) == [None]
    assert origins(embed(OTHER, mechanism="privunit")) == [None]
    assert origins(embed(OTHER, mechanism="laplace", epsilon=0.5)) == [None]
    assert origins(embed(OTHER, mechanism="laplace", epsilon=0.5, clip_norm=0.5)) == [None]
    assert origins(embed(OTHER, mechanism="laplace", epsilon=0.5)) != [None]


def test_vectors_of_the_callers_own_are_released_each_time(saver: Tenant) -> None:
    body = {"vectors": [[0.6, 0.8, 0.0, 0.0]], "epsilon": 1, "mechanism": "privunit"}
    first, again = (saver.http.post("/embed/vector", json=body) for _ in range(2))
    assert vectors(first) != vectors(again)
    assert origins(again) == [None]
    assert "repeats" not in again.json()["privacy"]
    assert saver.committed() == 2.0


def test_openai_clients_and_the_endpoints_share_releases(saver: Tenant) -> None:
    def embed(*texts: str, model: str = "minilm-sentdp-eps10") -> httpx.Response:
        return saver.http.post("/v1/embeddings", json={"model": model, "input": texts, "encoding_format": "float"})

    first = embed(DOCUMENT)
    mixed = embed(OTHER, DOCUMENT)
    assert origins(mixed) == [None, first.json()["privacy"]["release_id"]]
    assert mixed.json()["data"][1]["object"] == "embedding"
    assert mixed.json()["privacy"]["reused"] == 1
    assert vectors(mixed)[1] == vectors(first)[0] == vectors(saver.embed(epsilon=10))[0]
    assert saver.committed() == 20.0
    assert origins(embed(DOCUMENT, model="opinions")) == [None]
    assert origins(embed(DOCUMENT, model="opinions")) != [None]
    assert saver.committed() == 28.0


def test_another_pack_of_the_same_name_is_another_release(thrifty: Gateway, saver: Tenant, tmp_path: Path) -> None:
    pack = pack_paths()["general"].read_bytes()

    def install(content: bytes) -> None:
        (tmp_path / "new").write_bytes(content)
        thrifty.on_loop(
            thrifty.service.parts[StoredFiles].put(saver.name, DOMAINS, "own", {".safetensors": tmp_path / "new"})
        )

    install(pack)
    assert origins(saver.embed(domain="own")) == [None]
    assert origins(saver.embed(domain="own")) != [None]
    install(pack)
    assert origins(saver.embed(domain="own")) != [None], "the same pack, copied again"
    install(pack.replace(b"general", b"another", 1))
    assert origins(saver.embed(domain="own")) == [None]
    assert saver.committed() == 2.0


def test_an_estimate_does_not_tell_what_was_released(saver: Tenant) -> None:
    body = {"documents": [{"text": DOCUMENT}], "epsilon": 1.0}
    before = saver.http.post("/budget/estimate", json=body).json()["accounts"][0]["cost"]
    saver.embed()
    assert saver.http.post("/budget/estimate", json=body).json()["accounts"][0]["cost"] == before


def test_an_answer_leaves_even_if_its_results_cannot_be_kept(saver: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable(*_: Any, **__: Any) -> None:
        raise LedgerUnavailable

    monkeypatch.setattr(ReuseStore, "keep", unavailable)
    for _ in range(2):
        assert origins(saver.embed()) == [None]
    assert saver.committed() == 2.0

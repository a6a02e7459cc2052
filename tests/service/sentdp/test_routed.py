"""`domain: "auto"`: what a caller gets and pays, what is refused, and when it is there."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gateway_kit import DOCUMENT, Tenant, good
from inprocess_kit import Gateway, opened_gateway
from pack_kit import make_pack, make_routes, parameters_row

from core.errors import InvalidInput
from core.mechanisms.sentences.domain_pack import CodeNoise, DomainPack, DomainPackInfo
from gpu_workers.packs import ROUTES, pack_paths
from service.config.settings import Settings
from service.domains.store import DomainStore
from service.sentdp.service import DocumentBody, SentDPRequest, event_of

PACKS = ("law", "sport", "general")
SENTENCES = ["The court heard the case.", "The judge agreed.", "An appeal followed.", "It was denied."]


def encoder_fingerprint() -> str:
    return DomainPackInfo.read(pack_paths()["general"]).encoder_fingerprint


def small_pack(name: str, seed: int) -> DomainPack:
    rows = np.random.default_rng(seed).normal(size=(6, 384)).astype(np.float32)
    pack = make_pack(
        rows / np.linalg.norm(rows, axis=1, keepdims=True),
        parameters=(parameters_row(0.5, 1.0, 6, 1, 6, codes=4, code_noise=CodeNoise.COUNTS),),
    )
    return replace(pack, info=replace(pack.info, name=name, encoder_fingerprint=encoder_fingerprint()))


def install(folder: Path, packs: tuple[str, ...] = PACKS[:2]) -> None:
    """Small packs beside the shipped one, and routes among them."""
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(packs):
        small_pack(name, number).save(folder / f"{name}.safetensors")
    centroids = np.random.default_rng(7).normal(size=(6, 384)) / 20
    routes = make_routes(centroids, [0, 0, 1, 1, 2, 2], PACKS, default="general", default_percent=25)
    replace(routes, info=replace(routes.info, encoder_fingerprint=encoder_fingerprint())).save(folder / ROUTES)


def install_useless(folder: Path, name: str) -> None:
    """A pack of another encoder, malformed packs and names."""
    other = small_pack(name, 1)
    replace(other, info=replace(other.info, encoder_fingerprint="0" * 64)).save(folder / f"{name}.safetensors")
    small_pack("auto", 0).save(folder / "auto.safetensors")
    small_pack("upper", 0).save(folder / "Upper.safetensors")
    (folder / "broken.safetensors").write_bytes(b"zanzibar")


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("routed")
    install(folder / "packs")
    install_useless(folder / "packs", "alien")
    (folder / "presets.toml").write_text(
        '[presets.auto]\nendpoint = "sentdp"\nmechanism = "sentence_codes"\nepsilon = 8\ndomain = "auto"\n'
    )
    settings = {"DOMAIN_PACKS_DIR": str(folder / "packs"), "PRESETS_FILE": str(folder / "presets.toml")}
    with opened_gateway(folder, **settings, REUSE_RETENTION_S="3600") as gateway:
        yield gateway


@pytest.fixture
def caller(routed: Gateway) -> Tenant:
    return routed.tenant()


def test_every_row_names_its_pack_and_the_answer_what_the_choice_costs(caller: Tenant) -> None:
    rows = np.random.default_rng(0).normal(size=(4, 384))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    documents = [{"text": DOCUMENT}, {"sentences": SENTENCES}, {"embeddings": unit.tolist()}, {"text": "Alone."}]
    body = good(caller.embed(documents, epsilon=2.0, domain="auto"))
    assert all(row["domain"] in PACKS for row in body["data"])
    assert all(np.isfinite(row["embedding"]).all() for row in body["data"])
    assert [row["space"] for row in body["data"]] == ["encoder"] * 4
    assert body["privacy"]["routing"] == {"epsilon": 0.5}
    assert body["privacy"]["epsilon"] == 2.0
    assert body["privacy"]["mechanism"] == "sentence_codes"
    assert body["dimension"] == 384
    assert caller.committed() == 8.0


def test_the_price_is_that_of_a_pure_release_at_the_whole_epsilon(caller: Tenant) -> None:
    """The packs release by counts, which alone would be cheaper; the choice of the pack is not by counts."""
    with_pack = {"documents": [{"text": DOCUMENT}], "epsilon": 1.0, "domain": "law"}
    estimates = [
        good(caller.http.post("/budget/estimate", json=with_pack | {"domain": domain})) for domain in ("law", "auto")
    ]
    assert [estimate["accounts"][0]["cost"]["epsilon"] for estimate in estimates] == [1.0, 1.0]
    assert [estimate["privacy"].get("routing") for estimate in estimates] == [None, {"epsilon": 0.25}]
    assert caller.committed() == 0.0


def test_a_plan_for_responses_alone_admits_it(routed: Gateway) -> None:
    for noise, status in (("counts", 403), ("responses", 200)):
        planned = routed.tenant(epsilon=20, plans={f"sentence_codes:{noise}": 1.0})
        assert planned.embed(epsilon=1.0, domain="auto").status_code == status


def test_windows_of_words_cost_the_token_account_alone(caller: Tenant) -> None:
    body = good(caller.embed(epsilon=4.0, domain="auto", segmentation="words"))
    assert body["data"][0]["domain"] in PACKS
    assert body["privacy"]["routing"] == {"epsilon": 1.0}
    assert body["privacy"]["unit"] == "token"
    assert caller.committed("sentence") == 0.0
    assert caller.committed("token") == 4.0


def test_a_repeat_shows_the_same_pack_and_costs_nothing(caller: Tenant) -> None:
    first, again = (good(caller.embed(epsilon=3.0, domain="auto")) for _ in range(2))
    assert again["privacy"]["reused"] == 1
    assert again["data"][0]["domain"] == first["data"][0]["domain"]
    assert again["data"][0]["embedding"] == first["data"][0]["embedding"]
    assert "reused_from" not in good(caller.embed(epsilon=3.0, domain="law"))["data"][0]
    assert caller.committed() == 6.0


def test_an_openai_client_names_it_by_a_preset(caller: Tenant) -> None:
    body = good(caller.http.post("/v1/embeddings", json={"model": "auto", "input": DOCUMENT}))
    assert body["data"][0]["domain"] in PACKS
    assert body["privacy"]["routing"] == {"epsilon": 1.0}


def test_other_mechanisms_are_refused(caller: Tenant) -> None:
    for mechanism in ("clipped_cosine", "deep_candidate", "document_selection"):
        refused = caller.embed(domain="auto", mechanism=mechanism)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "mechanism")
    assert caller.committed() == 0.0


def test_an_epsilon_that_cannot_be_divided_is_refused_in_its_own_unit(tmp_path: Path) -> None:
    """Only where the operator allows such an epsilon."""
    install(tmp_path / "packs")
    auto = asyncio.run(DomainStore(None, tmp_path / "packs").find("acme", "auto"))
    settings = Settings(data_dir=tmp_path, epsilon_min=1e-9)
    body = SentDPRequest(documents=[DocumentBody(text=DOCUMENT)], epsilon=1e-9, domain="auto")
    with pytest.raises(InvalidInput, match="at least 2e-09") as refused:
        event_of(body, settings, auto)
    assert refused.value.field == "epsilon"
    event_of(body.model_copy(update={"epsilon": 2e-9}), settings, auto)


def test_it_is_listed_beside_the_packs(routed: Gateway, caller: Tenant) -> None:
    rows = {row["name"]: row for row in good(caller.http.get("/domains"))["domains"]}
    assert set(rows) >= {"auto", *PACKS}
    assert rows["auto"]["packs"] == list(PACKS)
    assert rows["auto"]["scope"] == "installed"
    assert rows["auto"]["usable"] is True
    models = good(caller.http.get("/models"))["models"]
    assert set(next(model for model in models if model["role"] == "embed")["domains"]) == set(rows)


def test_nobody_makes_a_domain_of_this_name_or_that_of_the_routes(routed: Gateway, caller: Tenant) -> None:
    for client in (caller.http, routed.admin):
        for name in ("auto", "routes"):
            job = {"name": name, "documents": [{"sentences": SENTENCES}] * 40}
            assert client.post("/jobs/domain", json=job).json()["errors"][0]["field"] == "name"
        lines = {"content": b'{"text": "A."}\n', "headers": {"content-type": "application/x-ndjson"}}
        assert client.post("/jobs/domain?name=auto", **lines).json()["errors"][0]["field"] == "name"
        assert client.delete("/domains/auto").status_code == 404


def test_it_needs_every_pack_of_the_routes_for_one_encoder(tmp_path: Path) -> None:
    asyncio.run(_with_packs_changed(tmp_path))


async def _with_packs_changed(tmp_path: Path) -> None:
    packs = tmp_path / "packs"
    install(packs)
    before = await DomainStore(None, packs).find("acme", "auto")
    assert before.is_routed
    assert before.code_noise(10**9) is None

    small_pack("law", 9).save(packs / "law.safetensors")
    assert (await DomainStore(None, packs).find("acme", "auto")).digest != before.digest, "another pack of that name"

    other = small_pack("law", 0)
    replace(other, info=replace(other.info, encoder_fingerprint="0" * 64)).save(packs / "law.safetensors")
    assert "auto" not in [row["name"] for row in await DomainStore(None, packs).visible("acme")]
    (packs / "law.safetensors").unlink()
    assert "auto" not in [row["name"] for row in await DomainStore(None, packs).visible("acme")]

    install(packs)
    (packs / ROUTES).write_bytes(b"no routes")
    assert "auto" not in [row["name"] for row in await DomainStore(None, packs).visible("acme")]

    install(packs)
    for loaded in ({"law", "sport", "general"}, {"auto", "general"}):  # what the workers can use with their encoder
        rows = await DomainStore(None, packs, loaded=lambda loaded=loaded: loaded).visible("acme")
        assert {row["name"] for row in rows} == loaded


def test_installed_files_that_cannot_be_used_are_left_out_of_a_gateway(caller: Tenant) -> None:
    names = {row["name"] for row in good(caller.http.get("/domains"))["domains"]}
    assert not names & {"alien", "broken", "Upper"}
    for name in ("alien", "broken", "Upper"):
        refused = caller.embed(domain=name)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "domain")
        assert refused.headers["content-type"] == "application/problem+json"
    assert caller.committed() == 0.0


def test_the_gateway_warns_of_installed_files_that_it_leaves_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path)
    install_useless(tmp_path, "sport")
    DomainStore(None, tmp_path, loaded=lambda: {"general", "law"}).warn_of_unloaded()
    warned = [record.getMessage() for record in caplog.records if record.name == "privacy_gateway.domains"]
    for name in ("'auto'", "'sport'", "'broken'", "'Upper'", "routes"):
        assert sum(name in message for message in warned) == 1, name
    assert not any("zanzibar" in message or str(tmp_path) in message for message in warned)

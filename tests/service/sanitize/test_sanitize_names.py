"""`POST /sanitize` and names: found by the tagger, refused where none finds them, never let through by a failure."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from gateway_kit import LEAN, Tenant, good
from inprocess_kit import Gateway, module_gateway, opened_gateway
from tiny_models import checkpoint
from transformers import AutoModelForTokenClassification, AutoTokenizer

from gpu_workers.engine.protocol import Role
from service.http.middleware import JsonLines

NAMES = {"PERSON", "LOCATION", "ORGANIZATION"}
# the accents are separate code points; the family is one picture of five characters
TEXT = (
    "😀 Yesterday Maria Ke\u0301ller\u0301 flew from Lisbon to Norway 👨‍👩‍👧. She works for Siemens, like Tom O'Brien."
)
MARKED = "😀 Yesterday [PERSON] flew from [LOCATION] to [LOCATION] 👨‍👩‍👧. She works for [ORGANIZATION], like [PERSON]."


def sanitize(tenant: Tenant, *texts: str, **fields: Any) -> httpx.Response:
    return tenant.http.post("/sanitize", json={"documents": [{"text": text} for text in texts], **fields})


def masked(tenant: Tenant, text: str, **fields: Any) -> dict[str, Any]:
    return dict(good(sanitize(tenant, text, return_spans=True, **fields))["data"][0])


def test_names_are_masked_by_default_where_they_stand(tenant: Tenant) -> None:
    row = masked(tenant, TEXT)
    assert row["text"] == MARKED
    for span in row["spans"]:
        assert row["text"][span["start"] : span["end"]] == f"[{span['type']}]"


def test_only_the_requested_names_are_masked(tenant: Tenant) -> None:
    text = masked(tenant, TEXT, mask={"entities": ["LOCATION"]})["text"]
    assert text.count("[LOCATION]") == 2
    assert "Siemens" in text
    assert "O'Brien" in text


def test_a_name_inside_an_address_is_part_of_the_address(tenant: Tenant) -> None:
    assert masked(tenant, "Write to maria.keller@siemens.com, please.")["text"] == "Write to [EMAIL_ADDRESS], please."


def test_surrogates_of_names_are_names_and_the_same_for_the_same_name(tenant: Tenant) -> None:
    text = "Maria Keller met Tom O'Brien in Lisbon. Later Maria Keller called from Lisbon."
    row = masked(tenant, text, fill={"mode": "surrogate"})
    values = [(span["type"], row["text"][span["start"] : span["end"]]) for span in row["spans"]]
    assert [kind for kind, _ in values] == ["PERSON", "PERSON", "LOCATION", "PERSON", "LOCATION"]
    first, second, town, again, town_again = (value for _, value in values)
    assert first == again != second
    assert town == town_again
    assert not {"Keller", "O'Brien", "Lisbon"} & set(row["text"].replace(".", " ").split())
    assert first.replace(" ", "").replace("-", "").replace("'", "").isalpha()


def test_the_catalogue_says_what_finds_an_entity(tenant: Tenant) -> None:
    rows = {row["name"]: row for row in tenant.http.get("/entities").json()["entities"]}
    models = {row["role"]: row for row in tenant.http.get("/models").json()["models"]}
    assert {name for name, row in rows.items() if row["recognisers"] == ["tagger"]} == NAMES
    assert all(rows[name]["default"] and rows[name]["threshold"] >= 0.25 for name in NAMES)
    assert rows["IBAN_CODE"]["recognisers"] == ["pattern"]
    assert rows["PASSWORD"]["recognisers"] == ["pattern", "tagger"]
    assert set(models["sanitize"]["tagger"]["types"]) == {*NAMES, "PASSWORD", "SECRET", "USERNAME"}
    assert set(models["sanitize"]["default_entities"]) >= NAMES


# ------------------------------------------------------------------ a tagger of the operator's own

POISON = "perth"  # the model's vector of this word is not a number


@pytest.fixture(scope="module")
def own_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = checkpoint(tmp_path_factory.mktemp("own") / "model", "bert", AutoModelForTokenClassification, teach=True)
    model = AutoModelForTokenClassification.from_pretrained(path)
    poisoned = AutoTokenizer.from_pretrained(path).convert_tokens_to_ids(POISON)
    model.bert.embeddings.word_embeddings.weight.data[poisoned] = float("nan")
    model.save_pretrained(path)
    return LEAN | {"PRIVACY_GATEWAY_TAGGER": str(path)}


@pytest.fixture(scope="module")
def own_tagger(tmp_path_factory: pytest.TempPathFactory, own_settings: dict[str, str]) -> Iterator[Gateway]:
    with opened_gateway(tmp_path_factory.mktemp("own"), own_settings) as gateway:
        yield gateway


def test_a_checkpoint_of_the_operators_own_finds_what_it_was_taught(own_tagger: Gateway) -> None:
    tenant = own_tagger.tenant()
    text = "the parcel that alice sent to bob@example.org went from lima to oslo"
    assert (
        masked(tenant, text)["text"]
        == "the parcel that [PERSON] sent to [EMAIL_ADDRESS] went from [LOCATION] to [LOCATION]"
    )
    names = {row["name"] for row in tenant.http.get("/entities").json()["entities"] if "tagger" in row["recognisers"]}
    assert names == {"PERSON", "LOCATION"}


def test_an_entity_that_the_checkpoint_does_not_know_is_refused(own_tagger: Gateway) -> None:
    answer = sanitize(own_tagger.tenant(), "alice went", mask={"entities": ["PERSON", "ORGANIZATION"]})
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid-input"
    assert answer.json()["errors"][0]["field"] == "entities"
    assert "alice" not in answer.text


def test_a_tagger_that_fails_on_a_text_lets_nothing_of_it_through(
    own_tagger: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    tenant = own_tagger.tenant()
    answer = sanitize(tenant, "alice went from lima", f"bob went to {POISON}")
    assert answer.status_code == 500
    assert answer.json()["code"] == "recogniser-failed"
    for word in ("alice", "bob", "lima", POISON):
        assert word not in answer.text
        assert word not in "".join(JsonLines().format(record) for record in caplog.records)
    assert masked(tenant, "bob went")["text"] == "[PERSON] went"


def test_a_worker_that_dies_over_a_text_lets_nothing_of_it_through(own_tagger: Gateway) -> None:
    tenant = own_tagger.tenant()
    own_tagger.kill_worker_at_work(Role.SANITIZE)
    answer = sanitize(tenant, "alice went from lima")
    assert (answer.status_code, answer.json()["code"]) == (502, "worker-died")
    assert not {"alice", "lima"} & set(answer.text.split())
    assert masked(tenant, "alice went")["text"] == "[PERSON] went"


# ------------------------------------------------------------------ no tagger


without_tagger = module_gateway()


def test_without_a_tagger_names_are_refused_and_no_default(without_tagger: Gateway) -> None:
    tenant = without_tagger.tenant()
    for entity in NAMES:
        answer = sanitize(tenant, TEXT, mask={"entities": [entity]})
        assert answer.status_code == 422
        assert answer.json()["code"] == "invalid-input"
        assert "Maria" not in answer.text
    assert masked(tenant, "Maria Keller, jo@example.org")["text"] == "Maria Keller, [EMAIL_ADDRESS]"
    assert not NAMES & {row["name"] for row in tenant.http.get("/entities").json()["entities"]}

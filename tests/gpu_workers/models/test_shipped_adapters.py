"""The shipped adapters do their work on plain sentences, and their files hold what their cards say."""

import numpy as np
import pytest

from core.text.mask_entity import Tagged, find_tagged
from core.text.policy import MaskPolicy
from gpu_workers.models.embedded import SHIPPED
from gpu_workers.models.infill import MaskedLM, Question, embedded_infill
from gpu_workers.models.tagger import EntityTagger, embedded_tagger


@pytest.fixture(scope="module")
def tagger() -> EntityTagger:
    return embedded_tagger()


@pytest.fixture(scope="module")
def infill() -> MaskedLM:
    return embedded_infill()


def test_names_of_every_type_are_found_with_their_characters(tagger: EntityTagger) -> None:
    text = "Yesterday Maria Keller flew from Lisbon to Norway. She works for Siemens, as does Tom O'Brien."
    found = {text[entity.start : entity.end]: entity.type for entity in tagger.tag([text])[0]}
    assert found == {
        "Maria Keller": "PERSON", "Lisbon": "LOCATION", "Norway": "LOCATION", "Siemens": "ORGANIZATION",
        "Tom O'Brien": "PERSON",
    }  # fmt: skip


def test_names_are_found_in_every_language(tagger: EntityTagger) -> None:
    for text, person, place in [
        ("Sehr geehrte Frau Baumgartner, Ihr Paket liegt in Magdeburg bereit.", "Baumgartner", "Magdeburg"),
        ("Bonjour, ici Amélie Rousseau. Je serai à Grenoble jeudi avec le dossier.", "Amélie Rousseau", "Grenoble"),
        ("Hola, soy Joaquín Herrero y llamo desde Valladolid por la factura.", "Joaquín Herrero", "Valladolid"),
        ("Gentile dott. Marchetti, la visita a Bologna è confermata per lunedì.", "Marchetti", "Bologna"),
        ("Beste Marloes de Boer, de bestelling wordt morgen in Groningen bezorgd.", "Marloes de Boer", "Groningen"),
        ("A Sra. Beatriz Carvalho mudou-se para Coimbra e pede a segunda via.", "Beatriz Carvalho", "Coimbra"),
        ("Pani Katarzyna Zielińska prosi o wysłanie umowy do Wrocławia.", "Katarzyna Zielińska", "Wrocławia"),
    ]:
        found = {text[entity.start : entity.end]: entity.type for entity in tagger.tag([text])[0]}
        assert found == {person: "PERSON", place: "LOCATION"}


def test_words_that_look_like_names_are_left_alone(tagger: EntityTagger) -> None:
    texts = [
        "Please pay in EUR to the IBAN below; the CFO needs the Q3 OKR and the NDA by Friday.",
        "Die Rechnung über 1.250,00 EUR ist bis Montag zu zahlen, Verwendungszweck siehe Anlage.",
        "Le paiement en EUR est dû lundi; le DAF veut le PDF avant Noël.",
        "Proszę o fakturę VAT do piątku, kwota 250 PLN, NIP na odwrocie.",
    ]
    policy = MaskPolicy(entities=tuple(tagger.types))
    for text, found in zip(texts, tagger.tag(texts), strict=True):
        places = tuple((entity.start, entity.end, entity.type, entity.score) for entity in found)
        assert find_tagged(text, policy, Tagged(text, frozenset(tagger.types), places)) == []


def test_a_name_takes_no_mark_or_space_beside_it(tagger: EntityTagger) -> None:
    text = 'Card 4111 1111 1111 1111, IBAN DE89 3704 0044 0532 0130 00. Ask "Maria Keller", (Lisbon), now.'
    names = {text[entity.start : entity.end] for entity in tagger.tag([text])[0]}
    assert names == {"Maria Keller", "Lisbon"}


def test_a_name_deep_in_a_long_document_is_found(tagger: EntityTagger) -> None:
    filler = "The weather was mild and nothing much happened that day. "
    text = filler * 200 + "Then Maria Keller arrived. " + filler * 200
    names = [text[entity.start : entity.end] for entity in tagger.tag([text])[0] if entity.type == "PERSON"]
    assert names == ["Maria Keller"]


def test_text_without_names_is_left_alone(tagger: EntityTagger) -> None:
    texts = ["What are my options?", "The parcel was lost and nobody could say why.", "ok", ""]
    assert tagger.tag(texts) == [[], [], [], []]


def test_likely_words_are_guessed(infill: MaskedLM) -> None:
    """Among the first ten of 30,000 pieces: only a model that reads the context gets there."""
    likely = {
        "I really enjoyed watching this [MASK] because the actors were great.": {"movie", "film", "show"},
        "He was born in the [MASK] of New York.": {"city", "state"},
        "She opened the door and walked into the [MASK].": {"room", "house", "kitchen", "office"},
    }
    hits = 0
    for text, words in likely.items():
        before, after = (item.ids for item in infill.pieces(text.split("[MASK]")))
        question = Question(np.concatenate([before, [infill.mask], after]), np.array([len(before)]))
        best = np.argsort(-infill.logits([question])[0][0])[:10]
        hits += bool(words & {infill.words.get(int(number)) for number in best})
    assert hits >= 2


def test_shipped_weights_stay_small() -> None:
    sizes = [path.stat().st_size for path in SHIPPED.glob("*.safetensors")]
    assert len(sizes) == 4
    assert sum(sizes) < 45_000_000
    assert {path.stem for path in SHIPPED.glob("*.md")} == {"tagger", "infill", "integer_encoder", "integer_tagger"}

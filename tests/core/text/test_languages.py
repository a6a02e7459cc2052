"""What is recognised in which language, whatever words stand around it."""

import pytest

from core.errors import InvalidInput
from core.text.languages import EVERY_LANGUAGE_ENTITIES, LANGUAGES, check_language
from core.text.lists import AllowLists
from core.text.policy import ENTITIES, TAGGED_ENTITIES, MaskPolicy
from core.text.sanitize import inspect

VALUES = {
    "EMAIL_ADDRESS": "jane.roe@acme-corp.com",
    "PHONE_NUMBER": "+44 20 7946 0958",
    "CREDIT_CARD": "4111 1111 1111 1111",
    "IBAN_CODE": "DE89 3704 0044 0532 0130 00",
    "US_SSN": "536-22-1234",
    "IP_ADDRESS": "192.168.7.4",
    "MAC_ADDRESS": "00:1A:2B:3C:4D:5E",
    "URL": "https://acme-corp.com/x",
    "CRYPTO": "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    "US_ITIN": "912-70-1234",
    "US_MBI": "1EG4-TE5-MK73",
    "MEDICAL_LICENSE": "AB1234563",
    "UK_NHS": "9434765919",
    "UK_NINO": "AB123456C",
    "AU_ABN": "51 824 753 556",
    "IN_AADHAAR": "234123412346",
    "IN_PAN": "ABCPD1234E",
    "SG_NRIC_FIN": "S1234567D",
    "ES_NIF": "12345678Z",
    "ES_NIE": "X1234567L",
    "IT_FISCAL_CODE": "RSSMRA85M01H501Q",
    "PL_PESEL": "44051401359",
    "DE_TAX_ID": "86095742719",
    "UUID": "123e4567-e89b-12d3-a456-426614174000",
}
AROUND = {
    "de": "Bitte notieren: {} gehört zu meinem Vorgang.",
    "es": "Por favor anote: {} corresponde al expediente.",
    "fr": "Veuillez noter : {} correspond à mon dossier.",
    "it": "Si prega di annotare: {} riguarda la pratica.",
    "nl": "Graag noteren: {} hoort bij mijn aanvraag.",
    "pl": "Proszę zapisać: {} dotyczy mojej sprawy.",
    "pt": "Por favor anote: {} diz respeito ao processo.",
}


def test_every_entity_that_is_offered_in_another_language_is_found_there():
    by_words = {name for name, entity in ENTITIES.items() if entity.by_words}
    assert {*VALUES, *TAGGED_ENTITIES, *by_words} == set(EVERY_LANGUAGE_ENTITIES)
    assert {"en", *AROUND} == set(LANGUAGES)
    for around in AROUND.values():
        for entity, value in VALUES.items():
            found = inspect(around.format(value), MaskPolicy(entities=(entity,)), AllowLists())
            assert [found.text[mask.start : mask.end] for mask in found.masks] == [value], (entity, around)


@pytest.mark.parametrize(
    ("language", "techniques", "allow_list", "field"),
    [
        ("xx", ("entity",), "general", "mask.language"),
        ("EN", ("entity",), "general", "mask.language"),
        ("unknown", ("entity",), "general", "mask.language"),
        ("", ("entity",), "general", "mask.language"),
        ("fr", ("entity", "vocabulary"), "general", "mask.techniques"),
        ("pl", ("allow_list",), "general", "mask.allow_list"),
    ],
)
def test_what_a_language_lacks_is_refused(language, techniques, allow_list, field):
    with pytest.raises(InvalidInput) as caught:
        check_language(language, techniques=techniques, allow_list=allow_list)
    assert caught.value.field == field


def test_english_lists_apply_to_every_document_whose_language_is_not_named():
    for language in ("auto", "en"):
        check_language(language, techniques=("vocabulary", "allow_list"), allow_list="general")
    text = "Der Patient wohnt in der Gartenstraße."
    found = inspect(text, MaskPolicy(techniques=("vocabulary",)), AllowLists())
    kept = text
    for mask in reversed(found.masks):
        kept = kept[: mask.start] + kept[mask.end :]
    assert "wohnt" not in kept
    assert "Gartenstraße" not in kept


def test_an_operators_own_list_may_be_in_any_language():
    check_language("de", techniques=("allow_list",), allow_list="klinik")

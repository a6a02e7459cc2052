"""What is recognised in which language, whatever words stand around it."""

import pytest

from core.errors import InvalidInput
from core.text.languages import OFFERED_ENTITIES, PATTERNS_ONLY, entities_of
from core.text.lists import AllowLists
from core.text.policy import ENTITIES, MaskPolicy
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
    "COORDINATE": "48.13743, 11.57549",
    "DATE_TIME": "07.11.1962",
    "UUID": "123e4567-e89b-12d3-a456-426614174000",
}
# Entities that words around the value show, with those words in each language.
IN_CONTEXT = {
    "SECRET": {
        "de": "Der API-Schlüssel lautet {}.",
        "es": "La clave de API es {}.",
        "fr": "La clé API est {}.",
        "it": "La chiave API è {}.",
        "nl": "De API-sleutel is {}.",
        "pl": "Klucz API to {}.",
        "pt": "A chave da API é {}.",
    },
    "PASSWORD": {
        "de": "Das Kennwort lautet {}.",
        "es": "La contraseña es {}.",
        "fr": "Le mot de passe est {}.",
        "it": "La password è {}.",
        "nl": "Het wachtwoord is {}.",
        "pl": "Hasło to {}.",
        "pt": "A senha é {}.",
    },
    "USERNAME": {
        "de": "Benutzername: {}",
        "es": "Nombre de usuario: {}",
        "fr": "Nom d'utilisateur : {}",
        "it": "Nome utente: {}",
        "nl": "Gebruikersnaam: {}",
        "pl": "Nazwa użytkownika: {}",
        "pt": "Nome de usuário: {}",
    },
    "DATE_OF_BIRTH": {
        "de": "Frau Weber, geb. {}",
        "es": "Fecha de nacimiento: {}",
        "fr": "Née le {} à Metz",
        "it": "Nata a Bari il {}",
        "nl": "Geboren op {} te Breda",
        "pl": "Urodzona {} w Gdyni",
        "pt": "Nascida em {} em Faro",
    },
    "AGE": {
        "de": "Der Patient ist {} Jahre alt.",
        "es": "Una paciente de {} años.",
        "fr": "Une patiente âgée de {} ans.",
        "it": "Una paziente di {} anni.",
        "nl": "De patiënt is {} jaar oud.",
        "pl": "Pacjentka ma {} lat.",
        "pt": "A paciente tem {} anos.",
    },
}
VALUES_IN_CONTEXT = {
    "SECRET": "9fK2mQx7Lw4Tz8Rb1Vc6",
    "PASSWORD": "Tulp&Roos77",
    "USERNAME": "kweber81",
    "DATE_OF_BIRTH": "07.11.1962",
    "AGE": "96",
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
    assert VALUES.keys() | IN_CONTEXT.keys() == {name for name, entity in ENTITIES.items() if entity.by_form}
    assert AROUND.keys() == set(PATTERNS_ONLY)
    for around in AROUND.values():
        for entity, value in VALUES.items():
            found = inspect(around.format(value), MaskPolicy(entities=(entity,)), AllowLists())
            assert [found.text[mask.start : mask.end] for mask in found.masks] == [value], (entity, around)


@pytest.mark.parametrize("entity", IN_CONTEXT)
def test_words_of_every_language_show_what_a_value_is(entity):
    assert IN_CONTEXT[entity].keys() == set(PATTERNS_ONLY)
    value = VALUES_IN_CONTEXT[entity]
    for around in IN_CONTEXT[entity].values():
        found = inspect(around.format(value), MaskPolicy(entities=(entity,)), AllowLists())
        assert [found.text[mask.start : mask.end].startswith(value) for mask in found.masks] == [True], around


def test_a_profile_is_a_set_of_entities_and_joins_those_that_are_named():
    def of(profile, *named, language="en"):
        return entities_of(language, techniques=("entity",), entities=named, allow_list="general", profile=profile)

    assert of("secrets") == ("SECRET", "PASSWORD")
    assert set(of("secrets", "URL", language="de")) == {"SECRET", "PASSWORD", "URL"}
    assert of("default") == ()
    assert {"EMAIL_ADDRESS", "PERSON", "AGE"} <= set(of("default", "AGE"))
    assert {"AGE", "DATE_OF_BIRTH", "DATE_TIME", "PERSON", "UK_PASSPORT"} <= set(of("hipaa"))


def test_a_profile_with_names_is_refused_where_no_tagger_reads_them():
    with pytest.raises(InvalidInput) as caught:
        entities_of("de", techniques=("entity",), entities=(), allow_list="general", profile="hipaa")
    assert caught.value.field == "mask.entities"


@pytest.mark.parametrize(("profile", "techniques"), [("nosuch", ("entity",)), ("pci", ("vocabulary",))])
def test_a_profile_that_cannot_apply_is_refused_without_echo(profile, techniques):
    with pytest.raises(InvalidInput) as caught:
        entities_of("en", techniques=techniques, entities=(), allow_list="general", profile=profile)
    assert caught.value.field == "mask.profile"
    assert "nosuch" not in str(caught.value.detail)


def test_by_default_a_language_looks_for_all_that_it_offers_but_what_nobody_gets_by_default():
    found = entities_of("de", techniques=("entity",), entities=(), allow_list="general")

    assert set(OFFERED_ENTITIES) - set(found) == {"UUID", "AGE", "DATE_TIME"}
    assert entities_of("de", techniques=("all",), entities=(), allow_list="general") == ()


def test_english_keeps_the_requested_entities():
    assert entities_of("en", techniques=("vocabulary",), entities=(), allow_list="general") == ()
    assert entities_of("en", techniques=("entity",), entities=("US_PASSPORT",), allow_list="x") == ("US_PASSPORT",)


@pytest.mark.parametrize(
    ("language", "techniques", "entities", "allow_list", "field"),
    [
        ("xx", ("entity",), (), "general", "mask.language"),
        ("EN", ("entity",), (), "general", "mask.language"),
        ("", ("entity",), (), "general", "mask.language"),
        ("de", ("entity",), ("US_PASSPORT",), "general", "mask.entities"),
        ("fr", ("entity", "vocabulary"), (), "general", "mask.techniques"),
        ("pl", ("allow_list",), (), "general", "mask.allow_list"),
    ],
)
def test_what_a_language_lacks_is_refused(language, techniques, entities, allow_list, field):
    with pytest.raises(InvalidInput) as caught:
        entities_of(language, techniques=techniques, entities=entities, allow_list=allow_list)
    assert caught.value.field == field


def test_an_operators_own_list_may_be_in_any_language():
    assert entities_of("de", techniques=("allow_list",), entities=(), allow_list="klinik") == ()

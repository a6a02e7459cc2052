"""What is recognised in which language, whatever words stand around it."""

import pytest
from recogniser_kit import finds
from table_kit import marked, rows

from core.errors import InvalidInput
from core.text.languages import EVERY_LANGUAGE_ENTITIES, LANGUAGES, check_language
from core.text.mask_words import AllowLists
from core.text.policy import ENTITIES, PROFILES, TAGGED_ENTITIES, MaskPolicy, entities_of
from core.text.sanitize import inspect

VALUES = dict(
    rows("""
EMAIL_ADDRESS | jane.roe@acme-corp.com || PHONE_NUMBER | +44 20 7946 0958 || CREDIT_CARD | 4111 1111 1111 1111
IBAN_CODE | DE89 3704 0044 0532 0130 00 || US_SSN | 536-22-1234 || IP_ADDRESS | 192.168.7.4
MAC_ADDRESS | 00:1A:2B:3C:4D:5E || URL | https://acme-corp.com/x || CRYPTO | 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa
US_ITIN | 912-70-1234 || US_MBI | 1EG4-TE5-MK73 || MEDICAL_LICENSE | AB1234563 || UK_NHS | 9434765919
UK_NINO | AB123456C || AU_ABN | 51 824 753 556 || IN_AADHAAR | 234123412346 || IN_PAN | ABCPD1234E
SG_NRIC_FIN | S1234567D || ES_NIF | 12345678Z || ES_NIE | X1234567L || IT_FISCAL_CODE | RSSMRA85M01H501Q
PL_PESEL | 44051401359 || DE_TAX_ID | 86095742719 || COORDINATE | 48.13743, 11.57549 || DATE_TIME | 07.11.1962
UUID | 123e4567-e89b-12d3-a456-426614174000
""")
)
# Entities that words around the value show, with those words in each language.
IN_CONTEXT = {
    "SECRET": """
de: Der API-Schlüssel lautet «9fK2mQx7Lw4Tz8Rb1Vc6». || es: La clave de API es «9fK2mQx7Lw4Tz8Rb1Vc6».
fr: La clé API est «9fK2mQx7Lw4Tz8Rb1Vc6». || it: La chiave API è «9fK2mQx7Lw4Tz8Rb1Vc6».
nl: De API-sleutel is «9fK2mQx7Lw4Tz8Rb1Vc6». || pl: Klucz API to «9fK2mQx7Lw4Tz8Rb1Vc6».
pt: A chave da API é «9fK2mQx7Lw4Tz8Rb1Vc6».
""",
    "USERNAME": """
de: Benutzername: «kweber81» || es: Nombre de usuario: «kweber81» || fr: Nom d'utilisateur : «kweber81»
it: Nome utente: «kweber81» || nl: Gebruikersnaam: «kweber81» || pl: Nazwa użytkownika: «kweber81»
pt: Nome de usuário: «kweber81»
""",
    "DATE_OF_BIRTH": """
de: Frau Weber, geb. «07.11.1962» || es: Fecha de nacimiento: «07.11.1962» || fr: Née le «07.11.1962» à Metz
it: Nata a Bari il «07.11.1962» || nl: Geboren op «07.11.1962» te Breda || pl: Urodzona «07.11.1962» w Gdyni
pt: Nascida em «07.11.1962» em Faro
""",
    "AGE": """
de: Der Patient ist «96» Jahre alt. || es: Una paciente de «96» años. || fr: Une patiente âgée de «96» ans.
it: Una paziente di «96» anni. || nl: De patiënt is «96» jaar oud. || pl: Pacjentka ma «96» lat.
pt: A paciente tem «96» anos.
""",
}
AROUND = {
    "de": "Bitte notieren: {} gehört zu meinem Vorgang.", "es": "Por favor anote: {} corresponde al expediente.",
    "fr": "Veuillez noter : {} correspond à mon dossier.", "it": "Si prega di annotare: {} riguarda la pratica.",
    "nl": "Graag noteren: {} hoort bij mijn aanvraag.", "pl": "Proszę zapisać: {} dotyczy mojej sprawy.",
    "pt": "Por favor anote: {} diz respeito ao processo.",
}  # fmt: skip


def test_every_entity_that_is_offered_in_another_language_is_found_there():
    by_words = {name for name, entity in ENTITIES.items() if entity.by_words}
    assert {*VALUES, *TAGGED_ENTITIES, *by_words} == set(EVERY_LANGUAGE_ENTITIES)
    assert by_words >= IN_CONTEXT.keys()
    assert {"en", *AROUND} == set(LANGUAGES)
    for around in AROUND.values():
        for entity, value in VALUES.items():
            assert finds(entity, around.format(value)) == [value], (entity, around)


def test_words_of_every_language_show_what_a_value_is():
    for entity in IN_CONTEXT:
        table = [(*text.split(": ", 1), value) for text, value in marked(IN_CONTEXT[entity])]
        assert {language for language, _, _ in table} == AROUND.keys()
        for _, text, value in table:
            assert [found.startswith(value) for found in finds(entity, text)] == [True], text


def test_a_profile_is_a_set_of_entities_and_joins_those_that_are_named():
    def of(profile, *named):
        return entities_of(profile, named, techniques=("entity",))

    assert of(None, "URL") == ("URL",)
    assert of("secrets") == ("SECRET", "PASSWORD")
    assert set(of("secrets", "URL")) == {"SECRET", "PASSWORD", "URL"}
    assert of("default") == ()
    assert {"EMAIL_ADDRESS", "PERSON", "AGE"} <= set(of("default", "AGE"))
    assert {"AGE", "DATE_OF_BIRTH", "DATE_TIME", "PERSON", "PASSPORT", "VIN", "EMPLOYEE_ID"} <= set(of("hipaa"))


def test_every_default_entity_is_in_a_profile_beside_the_default_one():
    named = {entity for name, entities in PROFILES.items() if name != "default" for entity in entities}
    assert set(PROFILES["default"]) - named == set()


def test_a_profile_that_cannot_apply_is_refused_without_echo():
    for profile, techniques in [("nosuch", ("entity",)), ("pci", ("vocabulary",))]:
        with pytest.raises(InvalidInput) as caught:
            entities_of(profile, (), techniques=techniques)
        assert caught.value.field == "mask.profile"
        assert "nosuch" not in str(caught.value.detail)


def test_what_a_language_lacks_is_refused():
    for language, techniques, allow_list, field in [
        ("xx", ("entity",), "general", "mask.language"),
        ("EN", ("entity",), "general", "mask.language"),
        ("unknown", ("entity",), "general", "mask.language"),
        ("", ("entity",), "general", "mask.language"),
        ("fr", ("entity", "vocabulary"), "general", "mask.techniques"),
        ("pl", ("allow_list",), "general", "mask.allow_list"),
        ("pl", ("allow_list",), "general-5000", "mask.allow_list"),
    ]:
        with pytest.raises(InvalidInput) as caught:
            check_language(language, techniques=techniques, allow_list=allow_list)
        assert caught.value.field == field


def test_english_lists_apply_to_every_document_whose_language_is_not_named():
    for language in ("auto", "en"):
        check_language(language, techniques=("vocabulary", "allow_list"), allow_list="general")
    check_language("de", techniques=("allow_list",), allow_list="klinik")  # an operator's own may be in any language
    text = "Der Patient wohnt in der Gartenstraße."
    found = inspect(text, MaskPolicy(techniques=("vocabulary",)), AllowLists())
    kept = text
    for mask in reversed(found.masks):
        kept = kept[: mask.start] + kept[mask.end :]
    assert "wohnt" not in kept
    assert "Gartenstraße" not in kept

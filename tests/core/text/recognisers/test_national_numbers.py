"""The numbers of countries: their forms, their check digits, and what passes without a word nearby."""

import random
import string

from recogniser_kit import finds
from table_kit import rows, texts

from core.text.mask_words import AllowLists
from core.text.policy import MaskPolicy
from core.text.recognisers.written_numbers import NUMBERS
from core.text.sanitize import inspect

EVERY = (*NUMBERS["national"], *NUMBERS["tax"])
# of each type: country | name | number
EXAMPLES = {
    "NATIONAL_ID": """
AT | Sozialversicherungsnummer | 6060 104319 || BE | rijksregisternummer | 54.10.97-446.79 || BG | EGN | 5428100771
BR | CPF | 410.696.797-98 || CH | AHV-Nummer | 756.3585.9079.02 || CL | RUT | 56.616.545-7
CZ | rodné číslo | 036230/5317 || DK | CPR-nummer | 290115-0394 || DO | cédula | 886-4604753-5
EC | cédula | 1147869406 || EE | isikukood | 62605155209 || FI | henkilötunnus | 191248-068H
FR | numéro de sécurité sociale | 1 85 05 78 006 084 91 || GR | AMKA | 27123786835 || HR | OIB | 53095246581
IE | PPS number | 9558162S || IL | identity number | 999969801 || IS | kennitala | 141223-9179
KR | resident id | 970710-4722161 || LT | asmens kodas | 84705277646 || LV | personas kods | 474855-34691
MY | NRIC | 991208-88-2007 || NL | burgerservicenummer | 128313171 || NO | fødselsnummer | 454126 53509
PK | CNIC | 36250-4037743-7 || PT | cartão de cidadão | 26644968 3 PE5 || RO | CNP | 2271111369019
SE | personnummer | 820120-0311 || SI | EMŠO | 2007726204146 || SK | rodné číslo | 081119/3394
TR | TC kimlik no | 58468757134 || ZA | identity number | 9708126599181
""",
    "TAX_ID": """
AR | CUIT | 20-10220391-8 || AT | USt-IdNr. | ATU30079688 || BE | ondernemingsnummer | BE0104868282
BR | CNPJ | 81.229.025/5023-47 || CH | UID | CHE-353.538.535 || CO | NIT | 898.280.997-6
DE | Steuernummer | 14/580/45247 || DE | USt-IdNr. | DE227281700 || DK | CVR | 17321560 || FI | Y-tunnus | 0807664-0
FR | SIRET | 599 972 460 46558 || FR | numéro fiscal | 01 59 721 750 013 || GB | UTR | 9800892273
GB | VAT number | GB763537650 || GR | AFM | 229326954 || IN | GSTIN | 27ODZLM6062I1ZN
IT | partita IVA | 58702100684 || NO | orgnr | 258 963 849 || PE | RUC | 20418363861 || PL | NIP | 587-271-01-17
PL | REGON | 703713256 || PT | NIF | 644010223 || RO | CUI | 47962028 || SE | organisationsnummer | 597155-5502
TR | VKN | 4748080353 || US | EIN | 23-2645966
""",
}


def drawn(form: str, rng: random.Random) -> str:
    table = {"9": string.digits, "A": string.ascii_uppercase}
    return "".join(rng.choice(table.get(char, char)) for char in form)


def test_a_valid_number_is_found_after_its_name_and_near_it():
    for entity, block in EXAMPLES.items():
        for country, name, number in rows(block):
            assert country in {row.country for row in EVERY}
            assert finds(entity, f"{name}: {number}") == [number]
            assert finds(entity, f"The {name} was read aloud by the clerk, {number} in full.") == [number]


def test_numbers_of_at_least_25_countries_are_recognised():
    assert len({row.country for row in NUMBERS["national"]}) >= 25
    assert len({country for country, _, _ in rows(EXAMPLES["NATIONAL_ID"])}) >= 25


def test_a_form_that_passes_alone_is_rarely_valid_by_chance():
    """And no number of a form makes its check fail with an error."""
    for row in EVERY:
        rng = random.Random(5)
        for form, alone in row.forms():
            bare = form.strip("9") == "" and alone
            draws = 20_000 if bare else 1_000 if alone else 50
            valid = sum(row.valid(drawn(form, rng)) for _ in range(draws))
            if alone:
                assert valid / draws <= (1 / 1_000 if bare else 1 / 40), form


def test_a_strict_form_with_check_digits_needs_no_word():
    for number in ["756.9217.0769.85", "390.533.447-05", "131052-308T", "11077941012", "CHE-100.155.212"]:
        entity = "TAX_ID" if number.startswith("CHE") else "NATIONAL_ID"
        assert finds(entity, f"We keep {number} in the safe.") == [number]
        other = "A" if number[-1].isalpha() else (int(number[-1]) + 1) % 10
        assert finds(entity, f"We keep {number[:-1]}{other} safe.") == []


def test_a_number_that_one_in_ten_is_by_chance_needs_a_word():
    for text in texts("""
        We keep 111222333 in the safe. || Order 811228-9874 arrived at 12:30. || Part 12.531.909-2 of the catalogue.
        The backup 20231123-1530 took 1700000000000 ms. || version 9.5.8.1.6.2 of 2024
    """):
        assert finds("NATIONAL_ID", text) == []


def test_other_spaces_and_dashes_are_read_as_the_usual_ones():
    assert finds("NATIONAL_ID", "see 1\u00a085\u00a005\u00a078\u00a0006\u00a0084\u00a091 there") != []
    assert finds("NATIONAL_ID", "see 390.533.447\u201105 there") == ["390.533.447\u201105"]


def test_a_labelled_number_that_is_wrongly_typed_is_hidden_too():
    assert finds("NATIONAL_ID", "Personnummer: 811228-9875") == ["811228-9875"]
    assert finds("TAX_ID", "Steuernummer 123/456/7890") == ["123/456/7890"]


def test_types_of_their_own_keep_their_name():
    for text, entity in rows("""
        Steuer-ID 86095742719 | DE_TAX_ID || DNI 12345678Z | ES_NIF
        codice fiscale RSSMRA85M01H501Q | IT_FISCAL_CODE || PESEL 44051401359 | PL_PESEL
        Social security number 536-22-1234 | US_SSN || National Insurance AB123456C | UK_NINO
    """):
        assert [mask.type for mask in inspect(text, MaskPolicy(), AllowLists()).masks] == [entity], text

"""The numbers of countries: their forms, their check digits, and what passes without a word nearby."""

import random
import string

from recogniser_kit import finds

from core.text.mask_words import AllowLists
from core.text.policy import MaskPolicy
from core.text.recognisers.written_numbers import NUMBERS
from core.text.sanitize import inspect

EVERY = (*NUMBERS["national"], *NUMBERS["tax"])
EXAMPLES = [
    ("NATIONAL_ID", "AT", "Sozialversicherungsnummer", "6060 104319"),
    ("NATIONAL_ID", "BE", "rijksregisternummer", "54.10.97-446.79"),
    ("NATIONAL_ID", "BG", "EGN", "5428100771"),
    ("NATIONAL_ID", "BR", "CPF", "410.696.797-98"),
    ("NATIONAL_ID", "CH", "AHV-Nummer", "756.3585.9079.02"),
    ("NATIONAL_ID", "CL", "RUT", "56.616.545-7"),
    ("NATIONAL_ID", "CZ", "rodné číslo", "036230/5317"),
    ("NATIONAL_ID", "DK", "CPR-nummer", "290115-0394"),
    ("NATIONAL_ID", "DO", "cédula", "886-4604753-5"),
    ("NATIONAL_ID", "EC", "cédula", "1147869406"),
    ("NATIONAL_ID", "EE", "isikukood", "62605155209"),
    ("NATIONAL_ID", "FI", "henkilötunnus", "191248-068H"),
    ("NATIONAL_ID", "FR", "numéro de sécurité sociale", "1 85 05 78 006 084 91"),
    ("NATIONAL_ID", "GR", "AMKA", "27123786835"),
    ("NATIONAL_ID", "HR", "OIB", "53095246581"),
    ("NATIONAL_ID", "IE", "PPS number", "9558162S"),
    ("NATIONAL_ID", "IL", "identity number", "999969801"),
    ("NATIONAL_ID", "IS", "kennitala", "141223-9179"),
    ("NATIONAL_ID", "KR", "resident id", "970710-4722161"),
    ("NATIONAL_ID", "LT", "asmens kodas", "84705277646"),
    ("NATIONAL_ID", "LV", "personas kods", "474855-34691"),
    ("NATIONAL_ID", "MY", "NRIC", "991208-88-2007"),
    ("NATIONAL_ID", "NL", "burgerservicenummer", "128313171"),
    ("NATIONAL_ID", "NO", "fødselsnummer", "454126 53509"),
    ("NATIONAL_ID", "PK", "CNIC", "36250-4037743-7"),
    ("NATIONAL_ID", "PT", "cartão de cidadão", "26644968 3 PE5"),
    ("NATIONAL_ID", "RO", "CNP", "2271111369019"),
    ("NATIONAL_ID", "SE", "personnummer", "820120-0311"),
    ("NATIONAL_ID", "SI", "EMŠO", "2007726204146"),
    ("NATIONAL_ID", "SK", "rodné číslo", "081119/3394"),
    ("NATIONAL_ID", "TR", "TC kimlik no", "58468757134"),
    ("NATIONAL_ID", "ZA", "identity number", "9708126599181"),
    ("TAX_ID", "AR", "CUIT", "20-10220391-8"),
    ("TAX_ID", "AT", "USt-IdNr.", "ATU30079688"),
    ("TAX_ID", "BE", "ondernemingsnummer", "BE0104868282"),
    ("TAX_ID", "BR", "CNPJ", "81.229.025/5023-47"),
    ("TAX_ID", "CH", "UID", "CHE-353.538.535"),
    ("TAX_ID", "CO", "NIT", "898.280.997-6"),
    ("TAX_ID", "DE", "Steuernummer", "14/580/45247"),
    ("TAX_ID", "DE", "USt-IdNr.", "DE227281700"),
    ("TAX_ID", "DK", "CVR", "17321560"),
    ("TAX_ID", "FI", "Y-tunnus", "0807664-0"),
    ("TAX_ID", "FR", "SIRET", "599 972 460 46558"),
    ("TAX_ID", "FR", "numéro fiscal", "01 59 721 750 013"),
    ("TAX_ID", "GB", "UTR", "9800892273"),
    ("TAX_ID", "GB", "VAT number", "GB763537650"),
    ("TAX_ID", "GR", "AFM", "229326954"),
    ("TAX_ID", "IN", "GSTIN", "27ODZLM6062I1ZN"),
    ("TAX_ID", "IT", "partita IVA", "58702100684"),
    ("TAX_ID", "NO", "orgnr", "258 963 849"),
    ("TAX_ID", "PE", "RUC", "20418363861"),
    ("TAX_ID", "PL", "NIP", "587-271-01-17"),
    ("TAX_ID", "PL", "REGON", "703713256"),
    ("TAX_ID", "PT", "NIF", "644010223"),
    ("TAX_ID", "RO", "CUI", "47962028"),
    ("TAX_ID", "SE", "organisationsnummer", "597155-5502"),
    ("TAX_ID", "TR", "VKN", "4748080353"),
    ("TAX_ID", "US", "EIN", "23-2645966"),
]


def drawn(form: str, rng: random.Random) -> str:
    table = {"9": string.digits, "A": string.ascii_uppercase}
    return "".join(rng.choice(table.get(char, char)) for char in form)


def test_a_valid_number_is_found_after_its_name_and_near_it():
    for entity, country, name, number in EXAMPLES:
        assert country in {row.country for row in EVERY}
        assert finds(entity, f"{name}: {number}") == [number]
        assert finds(entity, f"The {name} was read aloud by the clerk, {number} in full.") == [number]


def test_numbers_of_at_least_25_countries_are_recognised():
    assert len({row.country for row in NUMBERS["national"]}) >= 25
    assert len({country for entity, country, _, _ in EXAMPLES if entity == "NATIONAL_ID"}) >= 25


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
    for text in [
        "We keep 111222333 in the safe.",
        "Order 811228-9874 arrived at 12:30.",
        "Part 12.531.909-2 of the catalogue.",
        "The backup 20231123-1530 took 1700000000000 ms.",
        "version 9.5.8.1.6.2 of 2024",
    ]:
        assert finds("NATIONAL_ID", text) == []


def test_other_spaces_and_dashes_are_read_as_the_usual_ones():
    assert finds("NATIONAL_ID", "see 1\u00a085\u00a005\u00a078\u00a0006\u00a0084\u00a091 there") != []
    assert finds("NATIONAL_ID", "see 390.533.447\u201105 there") == ["390.533.447\u201105"]


def test_a_labelled_number_that_is_wrongly_typed_is_hidden_too():
    assert finds("NATIONAL_ID", "Personnummer: 811228-9875") == ["811228-9875"]
    assert finds("TAX_ID", "Steuernummer 123/456/7890") == ["123/456/7890"]


def test_types_of_their_own_keep_their_name():
    for text, entity in (
        ("Steuer-ID 86095742719", "DE_TAX_ID"),
        ("DNI 12345678Z", "ES_NIF"),
        ("codice fiscale RSSMRA85M01H501Q", "IT_FISCAL_CODE"),
        ("PESEL 44051401359", "PL_PESEL"),
        ("Social security number 536-22-1234", "US_SSN"),
        ("National Insurance AB123456C", "UK_NINO"),
    ):
        assert [mask.type for mask in inspect(text, MaskPolicy(), AllowLists()).masks] == [entity], text

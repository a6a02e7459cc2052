"""Surrogates of numbers keep length, separators and check digits, and come from reserved ranges where there are any."""

import re
from importlib import import_module

from stdnum import iban, imei, luhn
from surrogate_kit import all_of
from table_kit import rows

from core.text.recognisers.written_numbers import NUMBERS

# of the check digit in 49 CFR 565.15
LETTER_VALUES = (
    dict(zip("ABCDEFGH", range(1, 9), strict=True)) | dict(zip("JKLMN", range(1, 6), strict=True)) | {"P": 7, "R": 9}
)
LETTER_VALUES |= dict(zip("STUVWXYZ", range(2, 10), strict=True))
VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def shape(text):
    return re.sub(r"[A-Z]", "A", re.sub(r"[a-z]", "a", re.sub(r"\d", "9", text)))


def test_cards_are_of_test_ranges_with_the_grouping_of_the_original():
    for original, test_range in rows("""
        4111 1111 1111 1111 | 400000 || 5500-0000-0000-0004 | 555555 || 371449635398431 | 3782
        6011 1111 1111 1117 | 601100 || 3530111333300000 | 3530
    """):
        for new in all_of("CREDIT_CARD", original, original.replace(" ", "").replace("-", "")):
            digits = re.sub(r"\D", "", new)
            assert luhn.is_valid(digits)
            assert digits.startswith(test_range)
        assert shape(all_of("CREDIT_CARD", original)[0]) == shape(original)


def test_accounts_are_valid_and_of_the_same_country():
    for original, bank in rows("""
        DE89 3704 0044 0532 0130 00 | 9 || GB82WEST12345698765432 | TEST || ES91 2100 0418 4502 0005 1332 | 99
        FR1420041010050500013M02606 | 99 || NL91 ABNA 0417 1643 00 | TEST || PL61109010140000071219812874 | 999
        IT60 X054 2811 1010 0000 0123 456 |  || BE68539007547034 | 999
    """):
        for _ in range(5):
            (new,) = all_of("IBAN_CODE", original)
            assert iban.is_valid(new)
            assert (new[:2], len(new)) == (original[:2], len(original))
            assert re.sub(r"\W", "", new)[4:].startswith(bank)
            assert [at for at, char in enumerate(new) if char == " "] == [
                at for at, char in enumerate(original) if char == " "
            ]


def test_national_numbers_have_valid_check_digits_and_the_same_form():
    for entity, module, original in rows("""
        PL_PESEL | pl.pesel | 44051401359 || DE_TAX_ID | de.idnr | 36 574 261 809 || ES_NIF | es.dni | 54362315-K
        ES_NIE | es.nie | X-2482300-W || IT_FISCAL_CODE | it.codicefiscale | RSSMRA85T10A562S
        IN_AADHAAR | in_.aadhaar | 2341 2341 2346 || AU_ABN | au.abn | 83 914 571 673 || AU_TFN | au.tfn | 123 456 782
        CA_SIN | ca.sin | 123-456-782 || ABA_ROUTING_NUMBER | us.rtn | 111000025
        NATIONAL_ID | fr.nir | 2 95 10 99 126 111 93 || NATIONAL_ID | br.cpf | 390.533.447-05
        NATIONAL_ID | nl.bsn | 111222333 || NATIONAL_ID | be.nn | 85.07.30-033.28
        NATIONAL_ID | fi.hetu | 131052-308T || TAX_ID | pt.nif | 501 964 843
    """):
        valid = import_module(f"stdnum.{module}").is_valid
        assert valid(original)
        known = [row for row in (*NUMBERS["national"], *NUMBERS["tax"]) if row.module and row.valid(original)]
        for _ in range(5):
            (new,) = all_of(entity, original)
            assert valid(new) or any(row.valid(new) for row in known)
            assert shape(new) == shape(original)
            assert new != original


def test_ranges_that_are_never_issued():
    assert all_of("US_SSN", "536-22-8145")[0].startswith("666-")
    assert re.fullmatch(r"QQ \d\d \d\d \d\d [A-D]", all_of("UK_NINO", "AB 12 34 56 C")[0])
    assert all_of("UK_NHS", "943 476 5919")[0].startswith("999 ")
    assert re.fullmatch(r"[A-Z]{4}DE[A-Z]0[A-Z]{3}", all_of("SWIFT_CODE", "DEUTDEFF500")[0])
    assert re.fullmatch(r"00-00-5e-00-53-[0-9a-f]{2}", all_of("MAC_ADDRESS", "00-1b-44-11-3a-b7")[0])


def test_devices_and_vehicles_have_valid_check_digits():
    (device,) = all_of("IMEI", "49-015420-323751-8")
    assert imei.is_valid(device)
    assert device.startswith("00-")
    for _ in range(5):
        (code,) = all_of("VIN", "1HGCM82633A004352")
        values = [int(char) if char.isdigit() else LETTER_VALUES[char] for char in code]
        weighted = sum(value * weight for value, weight in zip(values, VIN_WEIGHTS, strict=True))
        assert code[8] == ("X" if weighted % 11 == 10 else str(weighted % 11))


def test_phone_numbers_keep_country_and_format():
    for original, form, language in rows(r"""
        (202) 456-1111 | \(\d{3}\) 555-01\d\d | en || +1-202-456-1111 | \+1-\d{3}-555-01\d\d | de
        +44 20 7946 1234 | \+44 20 7946 0\d{3} | en || 07911 123456 | 07700 900\d{3} | en
        01 42 68 53 00 | 01 99 00 \d\d \d\d | fr || +33 6 12 34 56 78 | \+33 6 39 98 \d\d \d\d | en
        030 12345678 | 030 23125\d{3} | de || +48 601 234 567 | \+48 6\d\d \d{3} \d{3} | pl
        06 12345678 | 06 \d{8} | nl
    """):
        (new,) = all_of("PHONE_NUMBER", original, language=language)
        assert re.fullmatch(form, new), new


def test_other_numbers_keep_their_shape():
    for entity, original in rows("""
        LICENSE_PLATE | WA 12345 || PASSPORT | C01X00T47 || US_BANK_NUMBER | 1234567890
        UUID | 6F1C2B1E-9D7A-4C55-8F1B-2A3C4D5E6F70 || HEALTH_INSURANCE_NUMBER | A123456780
    """):
        (new,) = all_of(entity, original)
        assert len(new) == len(original)
        assert new != original
        if entity != "UUID":
            assert shape(new) == shape(original)


def test_prefixes_of_employee_numbers_stay():
    assert re.fullmatch(r"EMP-[1-9]\d{5}|EMP-0?\d{5,6}", all_of("EMPLOYEE_ID", "EMP-104521")[0])


def test_coordinates_are_on_the_globe_with_the_same_decimals():
    for original, form in [
        ("52.5200° N, 13.4050° E", r"(\d\d\.\d{4})° N, (\d{2,3}\.\d{4})° E"),
        ("-33.8688, 151.2093", r"-(\d\d\.\d{4}), (\d{3}\.\d{4})"),
        ("52°31'12.0\"N 13°24'18.0\"E", r"(\d\d)°[0-5]\d'[0-5]\d\.\d\"N (\d\d)°[0-5]\d'[0-5]\d\.\d\"E"),
    ]:
        for _ in range(20):
            latitude, longitude = map(float, re.fullmatch(form, all_of("COORDINATE", original)[0]).groups())
            assert latitude <= 90
            assert longitude <= 180


def test_secrets_keep_their_shape_and_lose_their_prefix():
    for prefix, rest in (
        ("ghp", "_16C7e42F292c6912E7710c838347Ae178B4a"),
        ("AKI", "AIOSFODNN7EXAMPLE"),
        ("sk_live", "_4eC39HqLyjWDarjtT1zdp7dc"),
    ):
        (new,) = all_of("SECRET", prefix + rest)
        assert shape(new) == shape(prefix + rest)
        assert not new.startswith(prefix)
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\n-----END PRIVATE KEY-----"
    (new,) = all_of("SECRET", key)
    assert (new.split("\n")[0], new.split("\n")[2]) == (key.split("\n")[0], key.split("\n")[2])
    assert new != key
    upper, lower = all_of("PASSWORD", "Sommer2024!", "sommer2024!")
    assert upper.lower() != lower, "the letter case of a password is a part of it"


def test_more_addresses_than_a_reserved_range_has():
    hosts = [f"10.{number >> 8}.{number & 255}.7" for number in range(2_000)]
    new = all_of("IP_ADDRESS", *hosts)
    assert len(set(new)) == 2_000
    assert all(each.startswith(("192.0.2.", "198.51.100.", "203.0.113.", "198.18.", "198.19.")) for each in new)

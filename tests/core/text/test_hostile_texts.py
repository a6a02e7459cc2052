"""Texts that are made to hide values from patterns, or to slow patterns down: values are found."""

import pytest
from table_kit import texts
from tiers import cells

from core.text.mask_entity import plain_characters
from core.text.mask_words import AllowLists
from core.text.masks import union
from core.text.policy import DEFAULT_ENTITIES, ENTITIES, MaskPolicy
from core.text.recognisers.dates import dates
from core.text.sanitize import inspect
from core.text.segment import visible

POLICY = MaskPolicy(entities=(*DEFAULT_ENTITIES, "DATE_TIME", "AGE"))
VALUES = {
    "CREDIT_CARD": ("card ", "4111 1111 1111 1111"), "IBAN_CODE": ("IBAN ", "DE89 3704 0044 0532 0130 00"),
    "EMAIL_ADDRESS": ("mail ", "jane.doe@example.com"), "PHONE_NUMBER": ("call ", "+49 30 1234567"),
    "US_SSN": ("ssn ", "536-90-4399"),
}  # fmt: skip
# soft hyphen, grapheme joiner, marks of direction, zero-width space and joiner, embeddings, isolates, word joiner, tag
INVISIBLE = "\u00ad\u034f\u061c\u200b\u200d\u200e\u200f\u202a\u202e\u202c\u2060\u2068\u2069\ufe0f\ufeff\U000e0061"
DIGITS = {"full-width": 0xFF10, "Arabic-Indic": 0x660, "Devanagari": 0x966, "mathematical": 0x1D7CE}


def sanitised(text: str) -> str:
    """Return the text with the type of each mask in its place."""
    found = inspect(text, POLICY, AllowLists())
    shown = found.text
    for mask in reversed(found.masks):
        shown = f"{shown[: mask.start]}[{mask.type}]{shown[mask.end :]}"
    return shown


def full_width(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def in_digits(text: str, zero: int) -> str:
    return "".join(chr(zero + int(char)) if char.isdecimal() else char for char in text)


def test_invisible_characters_hide_no_value() -> None:
    for kind in VALUES:
        for mark in INVISIBLE:
            before, value = VALUES[kind]
            written = [value[:9] + mark + value[9:], mark.join(value), value.replace(" ", mark + " " + mark + mark)]
            for each in (*written, mark + value + mark):
                assert sanitised(f"{before}{each} and more") == f"{before}[{kind}] and more"


def test_values_in_other_forms_of_ascii_are_found() -> None:
    for kind in VALUES:
        before, value = VALUES[kind]
        for each in (full_width(value), *(in_digits(value, zero) for zero in DIGITS.values())):
            assert sanitised(f"{before}{each} and more") == f"{before}[{kind}] and more"


def test_homoglyphs_emoji_and_scripts_beside_values() -> None:
    for text, expected in [
        ("mail j\u0430ne.doe@ex\u0430mple.\u0441om now", "mail [EMAIL_ADDRESS] now"),
        ("почта иван@почта.рф, да", "почта [EMAIL_ADDRESS], да"), ("😀jane@example.com😀", "[EMAIL_ADDRESS]😀"),
        ("card 😀4111111111111111😀", "card 😀[CREDIT_CARD]😀"), (full_width("192.168.10.20"), "[IP_ADDRESS]"),
        ("passport no. " + full_width("X1234567"), "passport no. [PASSPORT]"),
        ("电话+86 138 0013 8000。", "电话[PHONE_NUMBER]。"),
    ]:  # fmt: skip
        assert sanitised(text) == expected


def test_invisible_characters_with_a_meaning_stay() -> None:
    for text in texts(r"""
        👩‍👩‍👧 and 1️⃣ and ❤️ || می‌خواهم ‏שלום‏ (abc) || ﻿name\n‏abc || क्‍ष
    """):
        assert visible(text) == text
        assert sanitised(text) == text


def test_plain_characters_keep_the_length_and_other_letters() -> None:
    text = full_width("Ab1@") + "𝐀𝟏 \u0663 ² ª é а\u00a0张。\u202f\u3000"
    assert plain_characters(text) == "Ab1@A1 3 ² ª é а 张。  "
    assert len(plain_characters(text)) == len(text)


UNITS = [
    *("number 1 ", "a@", "\u200f", "1 May ", "a", "1", "1-", "1 ", "1\u00a0", "://a:b@", "password=", "-----BEGIN "),
    *("eyJ.", "{", "4\u200d", "😀", "e\u0301", "محمد بن ", "张伟1", "\uff11", "\0", "\ufffd\ufffe", "👩\u200d"),
    *("a1:", "4-", "@", "(", "www.", "a.", "4111 ", "DE12 ", "[at] ", "٤", "MRN 1", "no. ", "plate A1 ", "passport "),
    *("no no ", "A1-", "BIC ", "12 ", "P<", "é1 ", "a.1", "756.", "9", "A9", "CHE-", "1 85 ", "tax id ", "999."),
    *("api_key=", "born 1", "1/1/", "May ", "user ", "eyJ", "pin 1", "1.2345 ", "93 ", "@a", "seed phrase: ", "word "),
    *("backup codes: 1234 ", "12345678, ", "pw ", "pw? its a1 ", "-storepass ", "a@1.", "1.1.", "wifi:s:a;", "a1b2"),
    *("enable secret 5 ", "login: a / ", "ref ", "article 1234567890123", "customer A 1 2 ", "/jan/", "password|a\n"),
    *("insert into t (password) values ('a'), ", "('a', ", "password,", "identified by ", "new pw\n", "admin / "),
    *("security question ", "htpasswd -b -b ", "wifi a is b / ", "jwt.sign(", "net use /user:a ", "a:5432:a:a:"),
    *("echo a ", "auth=(", "a-to-", "pdo(a, ", 'key="a" { type = a\n'),
]
EVERYTHING = MaskPolicy(entities=tuple(name for name, entity in ENTITIES.items() if not entity.needs_tagger))


@pytest.mark.parametrize("unit", cells(UNITS, fast=4))
def test_a_long_text_of_one_unit_is_read_to_its_end(unit: str) -> None:
    """Patterns that read a text again for each unit would exceed the time limit of the test."""
    text = (unit * 30_000)[:30_000]
    found = inspect(f"{text} jane.doe@example.com\n", EVERYTHING, AllowLists())
    address = found.text.index("jane.doe@example.com")
    assert any(mask.start <= address and mask.end >= address + len("jane.doe@example.com") for mask in found.masks)
    assert union(found.masks) == list(found.masks)


def test_only_numbers_that_may_be_dates_are_examined() -> None:
    """A text of bare numbers has no date, and dates between them are found."""
    numbers = "1 1-1. 2;3 a 7 a " * 2_000
    assert list(dates(numbers)) == []
    for date in texts("""
        3. 5. 84 || 3 de mayo de 1984 || 1er mai 2020 || May 3rd || monday, 3 May || 12:30 || 9 am || 5 IV 2020
    """):
        text = f"{numbers}on {date} {numbers}"
        assert [text[start:end] for start, end in dates(text)] == [date]

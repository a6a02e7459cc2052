"""Surrogate values of every type, from reserved ranges wherever such ranges exist.

| type | surrogate |
| --- | --- |
| EMAIL_ADDRESS | faker user name and digits at example.com, .org or .net (RFC 2606) |
| URL | https://www.example.{com,org,net}/ and a random path |
| PHONE_NUMBER | +1, an area code, 555-01xx (reserved for fiction) |
| CREDIT_CARD | test range 4000 00, valid Luhn digit |
| IBAN_CODE | GB, bank code TEST, valid mod 97 |
| US_SSN | area 666, never issued |
| US_ITIN | 9xx-7x-xxxx by faker |
| IP_ADDRESS | 192.0.2/24, 198.51.100/24, 203.0.113/24 (RFC 5737); 2001:db8::/32 (RFC 3849) for a colon |
| MAC_ADDRESS | 00:00:5E:00:53:xx (RFC 7042) |
| CRYPTO | Bitcoin address of a random hash, valid base58 checksum |
| UK_NHS | 999 xxx xxxx (test range), valid mod 11 |
| UK_NINO | prefix QQ, never issued |
| UUID | random, version 4 |
| PERSON | faker's first name for one word, else first and last name |
| LOCATION | faker's street address for one with a digit, else city |
| ORGANIZATION | faker's company |
| WORD | a word of the list that masked it |
| NUMBER and every other type | same shape: digit for digit, letter for letter; the checksum is **not** guaranteed |

The randomness is the operating system's and does not depend on the text. Each function receives the draw number. Beyond
`LONG_DRAWS` it widens its range, so that a document that contains a whole small range still terminates.
"""

from __future__ import annotations

import hashlib
import random
import string
import uuid
from collections.abc import Callable

from faker import Faker

from core.text.recognisers.numbers import luhn

LONG_DRAWS = 50

_rng = random.SystemRandom()
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_UPPER = string.ascii_uppercase
_LOWER = string.ascii_lowercase


def _faker() -> Faker:
    fake = Faker("en_US")
    for factory in fake.factories:
        factory.random = _rng
    return fake


_fake = _faker()


def _digits(count: int) -> str:
    return "".join(_rng.choices(string.digits, k=count))


def _letters(count: int) -> str:
    return "".join(_rng.choices(_LOWER, k=count))


def _safe_host(draw: int) -> str:
    if draw > LONG_DRAWS:  # the document masks `example` itself
        return f"{_letters(12)}.invalid"
    return "example." + _rng.choice(("com", "org", "net"))


def _email(original: str, draw: int) -> str:  # noqa: ARG001
    local = _letters(10) if draw > LONG_DRAWS else _fake.user_name()
    return f"{local}{_digits(3)}@{_safe_host(draw)}"


def _url(original: str, draw: int) -> str:  # noqa: ARG001
    return f"https://www.{_safe_host(draw)}/{_letters(8)}"


def _phone(original: str, draw: int) -> str:  # noqa: ARG001
    line = _digits(4) if draw > LONG_DRAWS else f"01{_digits(2)}"
    return f"+1-{_rng.randint(201, 989)}-555-{line}"


def _card(original: str, draw: int) -> str:  # noqa: ARG001
    body = f"400000{_digits(9)}"
    return next(body + check for check in string.digits if luhn(body + check))


def _iban(original: str, draw: int) -> str:  # noqa: ARG001
    bban = f"TEST{_digits(14)}"
    remainder = int("".join(str(int(char, 36)) for char in f"{bban}GB00")) % 97
    return f"GB{98 - remainder:02d}{bban}"


def _ssn(original: str, draw: int) -> str:  # noqa: ARG001
    return f"666-{_rng.randint(1, 99):02d}-{_rng.randint(1, 9999):04d}"


def _itin(original: str, draw: int) -> str:  # noqa: ARG001
    return _fake.itin()


def _ip(original: str, draw: int) -> str:
    if ":" in original or draw > LONG_DRAWS:
        return "2001:db8:" + ":".join(f"{_rng.randrange(1, 65536):x}" for _ in range(6))
    return f"{_rng.choice(('192.0.2', '198.51.100', '203.0.113'))}.{_rng.randint(1, 254)}"


def _mac(original: str, draw: int) -> str:  # noqa: ARG001
    if draw > LONG_DRAWS:
        return "02:" + ":".join(f"{_rng.randrange(256):02X}" for _ in range(5))  # locally administered
    return f"00:00:5E:00:53:{_rng.randrange(256):02X}"


def _crypto(original: str, draw: int) -> str:  # noqa: ARG001
    payload = b"\x00" + _rng.randbytes(20)
    raw = payload + hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    number, text = int.from_bytes(raw, "big"), ""
    while number:
        number, place = divmod(number, 58)
        text = _BASE58[place] + text
    return "1" * (len(raw) - len(raw.lstrip(b"\x00"))) + text


def _nhs(original: str, draw: int) -> str:  # noqa: ARG001
    while True:
        body = f"999{_digits(6)}"
        check = 11 - sum(int(digit) * (10 - place) for place, digit in enumerate(body)) % 11
        if check != 10:
            digits = body + str(check % 11)
            return f"{digits[:3]} {digits[3:6]} {digits[6:]}"


def _nino(original: str, draw: int) -> str:  # noqa: ARG001
    return f"QQ{_digits(6)}{_rng.choice('ABCD')}"


def _uuid(original: str, draw: int) -> str:  # noqa: ARG001
    return str(uuid.UUID(bytes=_rng.randbytes(16), version=4))


def _invented(draw: int) -> str:
    """Return a random name, for a document that masks the names faker has."""
    return _letters(8 + draw // LONG_DRAWS).capitalize()


def _person(original: str, draw: int) -> str:
    if draw > LONG_DRAWS:
        return _invented(draw)
    first = _fake.first_name()
    return f"{first} {_fake.last_name()}" if len(original.split()) > 1 else first


def _location(original: str, draw: int) -> str:
    if draw > LONG_DRAWS:
        return _invented(draw)
    return _fake.street_address() if any(map(str.isdecimal, original)) else _fake.city()


def _organization(original: str, draw: int) -> str:  # noqa: ARG001
    return _invented(draw) if draw > LONG_DRAWS else _fake.company()


def _shape(original: str, draw: int) -> str:
    fresh = []
    for char in original:
        if char.isnumeric():
            fresh.append(_rng.choice(string.digits))
        elif char.isalpha():
            fresh.append(_rng.choice(_UPPER if char.isupper() else _LOWER))
        else:
            fresh.append(char)
    return "".join(fresh) + (_digits(1 + draw // LONG_DRAWS) if draw > LONG_DRAWS else "")


_FAKES: dict[str, Callable[[str, int], str]] = {
    "EMAIL_ADDRESS": _email,
    "URL": _url,
    "PHONE_NUMBER": _phone,
    "CREDIT_CARD": _card,
    "IBAN_CODE": _iban,
    "US_SSN": _ssn,
    "US_ITIN": _itin,
    "IP_ADDRESS": _ip,
    "MAC_ADDRESS": _mac,
    "CRYPTO": _crypto,
    "UK_NHS": _nhs,
    "UK_NINO": _nino,
    "UUID": _uuid,
    "PERSON": _person,
    "LOCATION": _location,
    "ORGANIZATION": _organization,
}


def fake(kind: str, original: str, draw: int) -> str:
    """Draw one value of the type `kind`. It may equal an original by chance; the caller then draws again."""
    return _FAKES.get(kind, _shape)(original, draw)


def fake_word(words: tuple[str, ...], draw: int) -> str:
    return _letters(8 + draw // LONG_DRAWS) if draw > LONG_DRAWS else _rng.choice(words)

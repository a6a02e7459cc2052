"""PHONE_NUMBER: the country, the length and the separators of the original, from ranges reserved for fiction.

Ranges: the numbers that the regulators of the countries keep for drama and examples. A number of another country, and
one of a length that has no reserved range, keeps its country code and its first national digit; such a number may by
chance be that of a person.
"""

from __future__ import annotations

import phonenumbers
import regex  # type: ignore[import-untyped]

from core.text.surrogates.draw import Draw
from core.text.surrogates.shape import laid_out, longer, same_shape

DIGITS_MIN = 5  # of a phone number
FEW = 8  # then the values of a small range may be used up

# calling code -> national numbers without the leading 0; `x` is any digit
_FICTION: dict[str, tuple[str, ...]] = {
    "1": ("AAA55501xx",),
    "44": ("2079460xxx", "7700900xxx", "1632960xxx", "1134960xxx", "1214960xxx", "1614960xxx", "8081570xxx"),
    "33": ("19900xxxx", "26191xxxx", "35301xxxx", "46571xxxx", "53649xxxx", "63998xxxx"),
    "49": ("3023125xxx", "6990009xxx", "4066969xxx", "2214710xxx", "8999998xxx", "17139200xx", "176040690xx"),
    "61": ("25550xxxx", "35550xxxx", "75550xxxx", "85550xxxx"),
    "353": ("2091xxxxx",),
}
_BY_LANGUAGE = {"en": "1", "de": "49", "fr": "33", "es": "34", "it": "39", "nl": "31", "pl": "48", "pt": "351"}
_EXTENSION = regex.compile(
    r"(?<![ ,;])[ ,;]*(?:ext\.?|x|#|Durchwahl|wew\.?|poste|int\.?)[ .:]*\d{1,6}$", regex.IGNORECASE
)


def phone(original: str, draw: Draw) -> str:
    found = _EXTENSION.search(original)
    main = original[: found.start()] if found else original
    extension = original[len(main) :]
    digits = "".join(str(int(char)) for char in main if char.isdecimal())
    if len(digits) < DIGITS_MIN:
        return same_shape(original, draw)
    prefix, code = _prefix(main, digits, draw.document.language)
    if digits[len(prefix) :].startswith("0") and code not in ("39",):
        prefix += "0"
    national = digits[len(prefix) :]
    fresh = prefix + (_fiction(code, national, draw) or _plain(national, draw))
    written = laid_out("".join("0" if char.isdecimal() else char for char in main), fresh)
    return written + laid_out(extension, _letters_kept(extension, draw)) + longer(draw)


def _prefix(main: str, digits: str, language: str) -> tuple[str, str]:
    """Return the digits before the national number, and the calling code."""
    head = "00" if digits.startswith("00") and not main.lstrip("( ").startswith("+") else ""
    if head or main.lstrip("( ").startswith("+"):
        for count in (1, 2, 3):
            code = digits[len(head) : len(head) + count]
            if code.isdecimal() and int(code) in phonenumbers.COUNTRY_CODE_TO_REGION_CODE and str(int(code)) == code:
                return head + code, code
        return head, ""
    code = _BY_LANGUAGE[language]
    if code == "1" and digits.startswith("0"):
        return "", "44"
    if code == "1" and len(digits) == 11 and digits.startswith("1"):
        return "1", "1"
    return "", code


def _fiction(code: str, national: str, draw: Draw) -> str | None:
    if draw.attempt >= FEW:
        return None
    ranges = [each for each in _FICTION.get(code, ()) if len(each) == len(national)]
    if not ranges:
        return None
    same = [each for each in ranges if each[0] == national[0]]
    chosen = draw.choice(same or ranges)
    area = f"{draw.between(201, 989)}"
    return chosen.replace("AAA", area).replace("x" * chosen.count("x"), draw.digits(chosen.count("x")))


def _plain(national: str, draw: Draw) -> str:
    return national[:1] + draw.digits(max(len(national) - 1, 0))


def _letters_kept(extension: str, draw: Draw) -> str:
    return "".join(draw.digits(1) if char.isdecimal() else char for char in extension if char.isalnum())

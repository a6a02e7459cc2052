"""Cards, accounts, devices, vehicles and other numbers with check digits that are not national.

Test and reserved ranges are used where they exist.
"""

from __future__ import annotations

import hashlib
import string
import uuid

import regex  # type: ignore[import-untyped]
from stdnum import luhn
from stdnum.es import ccc

from core.text.surrogates.draw import Draw
from core.text.surrogates.shape import alphanumerics, laid_out, longer, same_shape

# the digits that a card begins with -> those of a range that card networks give for tests
_CARD_TESTS = (
    ("34", "3400"), ("37", "3782"), ("36", "3600"), ("38", "3852"), ("30", "3056"), ("35", "3530"),
    ("2", "222300"), ("4", "400000"), ("5", "555555"), ("6", "601100"),
)  # fmt: skip
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
IMEI_DIGITS = 15
IBAN_CHARS_MIN, IBAN_CHARS_MAX = 15, 34
SPANISH_DIGITS, BELGIAN_DIGITS = 20, 12  # of an account without country and check digits
_BANK_LETTERS = "TEST"  # no bank has this code
# Countries whose bank code has digits -> a first digit that no bank code has
_BANK_DIGITS = {"DE": "9", "AT": "9", "CH": "99", "PL": "999", "BE": "999", "FR": "99", "ES": "99", "PT": "99"}
_IPV4_TESTS = ("192.0.2", "198.51.100", "203.0.113")
_FEW = 4
_VIN_VALUES = dict(zip("0123456789ABCDEFGHJKLMNPRSTUVWXYZ", map(int, "012345678912345678123457923456789"), strict=True))
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
_DECIMAL = regex.compile(r"(?<!\d)\d{1,3}(?!\d)(?:[.,]\d+)?")
_MINUTES_MARK = regex.compile(r"[ ]?(?:['’′´\"”″s]|m(?![a-z]))")


def card(original: str, draw: Draw) -> str:
    digits = alphanumerics(original)
    head = next((test for start, test in _CARD_TESTS if digits.startswith(start)), "400000")
    body = head + draw.digits(max(len(digits), 12) - 1 - len(head))
    return laid_out(original, body + luhn.calc_check_digit(body))


def imei(original: str, draw: Draw) -> str:
    """Return a number of the type codes that begin with 00, which are for tests."""
    digits = alphanumerics(original)
    if not digits.isdecimal() or len(digits) < IMEI_DIGITS:
        return same_shape(original, draw)
    body = "00" + draw.digits(12)
    return laid_out(original, body + luhn.calc_check_digit(body) + draw.digits(len(digits) - IMEI_DIGITS))


def iban(original: str, draw: Draw) -> str:
    """Return an account of the same country and length with a bank code that no bank has, if one is known."""
    compact = alphanumerics(original).upper()
    country, bban = compact[:2], compact[4:]
    if not IBAN_CHARS_MIN <= len(compact) <= IBAN_CHARS_MAX or not compact.isascii() or not country.isalpha():
        return same_shape(original, draw)
    fresh = same_shape(bban, draw)
    head = _BANK_LETTERS if bban[:4].isalpha() else _BANK_DIGITS.get(country, "")
    fresh = _nationally_checked(country, head + fresh[len(head) : len(bban)])
    remainder = int("".join(str(int(char, 36)) for char in f"{fresh}{country}00")) % 97
    return laid_out(original, f"{country}{98 - remainder:02d}{fresh}")


def _nationally_checked(country: str, bban: str) -> str:
    """Return a Spanish or Belgian account with its own check digits, and any other as it is."""
    if country == "ES" and bban.isdecimal() and len(bban) == SPANISH_DIGITS:
        return bban[:8] + ccc.calc_check_digits(bban) + bban[10:]
    if country == "BE" and bban.isdecimal() and len(bban) == BELGIAN_DIGITS:
        return f"{bban[:10]}{int(bban[:10]) % 97 or 97:02d}"
    return bban


def swift_code(original: str, draw: Draw) -> str:
    """Return a code of the same country whose location ends in 0, which stands for tests."""
    code = alphanumerics(original).upper()
    bank = "".join(draw.choice(string.ascii_uppercase) for _ in range(4))
    place = draw.choice(string.ascii_uppercase) + "0"
    branch = code[8:] if code[8:] in ("", "XXX") else draw.letters(3).upper()
    return laid_out(original, bank + code[4:6] + place + branch)


def vin(original: str, draw: Draw) -> str:
    code = alphanumerics(original).upper()
    if len(code) != 17:
        return same_shape(original, draw, letters="ABCDEFGHJKLMNPRSTUVWXYZ")
    fresh = same_shape(code, draw, letters="ABCDEFGHJKLMNPRSTUVWXYZ")[:17].replace(" ", "")
    total = sum(_VIN_VALUES.get(char, 0) * weight for char, weight in zip(fresh, _VIN_WEIGHTS, strict=True))
    return laid_out(original, fresh[:8] + "0123456789X"[total % 11] + fresh[9:])


def ip_address(original: str, draw: Draw) -> str:
    """Return an address of RFC 5737, of RFC 2544 once these are used up, or of RFC 3849."""
    address, slash, prefix = original.partition("/")
    tail = slash + prefix
    if ":" in address or draw.long:
        new = "2001:db8:" + ":".join(f"{draw.between(1, 65_535):x}" for _ in range(6))
        return (new.upper() if address.isupper() else new) + tail
    if draw.attempt < _FEW:
        return f"{draw.choice(_IPV4_TESTS)}.{draw.between(1, 254)}{tail}"
    return f"198.{draw.between(18, 19)}.{draw.below(256)}.{draw.between(1, 254)}{tail}"


def mac_address(original: str, draw: Draw) -> str:
    """Return an address of RFC 7042, or a locally administered one once these are used up."""
    code = f"00005E0053{draw.below(256):02X}" if draw.attempt < _FEW else f"02{draw.below(2**40):010X}"
    return laid_out(original, code.lower() if original.islower() else code)


def crypto(original: str, draw: Draw) -> str:
    """Return a Bitcoin address of a random hash, or the shape of another wallet's address."""
    if not original.startswith(("1", "3")):
        kept = next((len(head) for head in ("0x", "bc1", "ltc1") if original.startswith(head)), 0)
        return same_shape(
            original, draw, letters="ABCDEF" if original.startswith("0x") else "ACDEFGHJKLMNPQRSTUVWXYZ", kept=kept
        )
    payload = (b"\x00" if original.startswith("1") else b"\x05") + draw.raw(20)
    raw = payload + hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    number, text = int.from_bytes(raw, "big"), ""
    while number:
        number, place = divmod(number, 58)
        text = _BASE58[place] + text
    return "1" * (len(raw) - len(raw.lstrip(b"\x00"))) + text


def random_uuid(original: str, draw: Draw) -> str:
    new = uuid.UUID(bytes=draw.raw(16), version=4).hex
    return laid_out(original, new.upper() if original.isupper() else new)


def coordinate(original: str, draw: Draw) -> str:
    """Return a random position with the same number of decimals, in degrees or in degrees, minutes and seconds."""
    if not _DECIMAL.search(original):
        return same_shape(original, draw)
    pieces, read, degrees = [], 0, 0
    for number in _DECIMAL.finditer(original):
        whole, _, decimals = number.group().replace(",", ".").partition(".")
        minutes = degrees and bool(_MINUTES_MARK.match(original, number.end()))
        longitude = degrees >= 1 and not minutes
        limit = 59 if minutes else 179 if longitude or len(whole) == 3 else 89
        degrees += 0 if minutes else 1
        most = min(limit, 10 ** len(whole) - 1)
        least = 10 ** (len(whole) - 1) if len(whole) > 1 and not whole.startswith("0") else 0
        separator = number.group()[len(whole) : len(whole) + 1]
        fresh = str(draw.between(least, max(least, most))).zfill(len(whole)) + separator + draw.digits(len(decimals))
        pieces += [original[read : number.start()], fresh]
        read = number.end()
    return "".join((*pieces, original[read:])) + longer(draw)


def kept_prefix(original: str, draw: Draw) -> str:
    """Return the shape of a number with the letters before its first digit, such as `EMP-`."""
    first = next((at for at, char in enumerate(original) if char.isdigit()), 0)
    return same_shape(original, draw, kept=first if first and not original[first - 1].isalnum() else 0)


def shape(original: str, draw: Draw) -> str:
    return same_shape(original, draw)

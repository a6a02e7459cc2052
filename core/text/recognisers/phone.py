"""Own recogniser for phone numbers, in their national and international forms.

Presidio's takes most of the whole time and misses local formats. A number in groups or with a country code passes by
its form; any other needs a word for a phone nearby (`core.text.recognisers.number_words`). The scan is linear in the
text.
"""

import ipaddress
from collections.abc import Iterator

import phonenumbers
import regex  # type: ignore[import-untyped]

from core.text.recogniser import BOUNDARY, CONTEXT_BEFORE_CHARS, Hit, Recogniser, matches
from core.text.recognisers.number_words import (
    PHONE_CONTEXT,
    counts_units,
    follows_word,
    is_article,
    labels_phone,
    names_card,
    names_machine,
    names_thing,
    starts_code,
)

_BLANK = r"[ \t\u00a0\u2007\u2009\u202f]"
_DASH = r"\-\u2010-\u2015\u2212"
_GAP = rf"(?:{_BLANK}{{0,2}}[().{_DASH}/](?:{_BLANK}|\(){{0,2}}|{_BLANK}{{1,2}}\(?)"
_EXTENSION = regex.compile(r"[ ,;]{0,2}(?:x|ext\.?|extension|#)[ .:]{0,2}\d{1,6}(?!\d)", regex.IGNORECASE)
# A cluster: digit groups with at most a separator between them. Possessive, so that a text is scanned once.
_CLUSTER = regex.compile(rf"(?<![\p{{N}}])(?:[+＋][ ]?)?\(?\d++(?:\)?{_GAP}?+\)?\d++)*+")
_GROUP = regex.compile(r"\d+")
_NANP = regex.compile(
    rf"(?<!\d)(?:(?:\+|00)?1{_GAP}?)?(?:\(\d{{3}}\)[ ]?|\d{{3}}[ .{_DASH}]?)\d{{3}}[ .{_DASH}]?\d{{4}}(?!\d)"
)
_DATE = regex.compile(
    r"(?:(?:19|20)\d\d([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:19|20)?\d\d)(?:[ T]{1,2}\d{1,2})?"
)
_YEARS = regex.compile(rf"(?:1[5-9]|20)\d\d(?:{_GAP}(?:1[5-9]|20)\d\d)+")
_THOUSANDS = regex.compile(r"\d{1,3}(?:([. \u00a0\u202f])\d{3})(?:\1\d{3})*")
_PRICE_OR_DECIMAL = regex.compile(r"\d+\.\d+")
_GAINED = regex.compile(
    rf"[+＋]{_BLANK}?(?:\d{{1,3}}(?:([. \u00a0\u202f])\d{{3}})(?:\1\d{{3}})*|\d{{1,3}}(?:000){{2,4}})"
)
_BY_YEAR = regex.compile(r"(?:19|20)\d\d[-/_]\d{3,7}|\d{3,7}[-/_](?:19|20)\d\d")
_SENTENCE_END = regex.compile(r"[.!?;](?:\s|$)|\n")
_DECIMALS = regex.compile(r"0\.\d+(?:[-/ ]{1,3}-?0\.\d+)+")
_DAY = regex.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?)?")
_BYTES_BEFORE = regex.compile(r"(?<![\w])(?=[0-9a-f ]{0,4}[a-f])[0-9a-f]{2}[ ][0-9a-f]{2}[ ]\Z", regex.IGNORECASE)
_BYTES = regex.compile(r"\d\d(?:[ ]\d\d)*")
_SPACED = regex.compile(rf"(?=(?:\D*\d){{9}})0\d+(?:{_BLANK}\d+)+")
# As in Brazil and Portugal.
_POSTCODE = regex.compile(r"\d{5}-\d{3}|[1-9]\d{3}-\d{3}")
LABELLED_SCORE = 0.95  # more than a number of another kind whose check digits are valid by chance
BARE_SCORE_MAX = 0.3  # of a number in one group after a word: it needs a word for a phone near
PHONE_DIGITS_MIN = 7
PHONE_DIGITS_MAX = 15
REGIONS = ("US", "GB", "DE", "FR", "IN", "AU", "BR", "ES", "IT", "NL", "SE", "CH", "PL", "IL", "ZA", "MX", "JP", "CN")
CODE_CHARS = 20
CODE_SCORE_MAX = 0.5  # capitals with a hyphen may be a name before a number that is valid in its country
_CODE_BEFORE = regex.compile(r"(?r)[0-9][A-Za-z]++\Z")
_CODE_AFTER = regex.compile(r"[A-Za-z]++[0-9]")


def _score(piece: str, digits: str) -> float:
    """Rate from 0 to 1 how much `piece`, a cluster of 7 to 15 digits, looks like a phone number without context."""
    bare = len(digits) == len(piece)
    if _DATE.fullmatch(piece) or _YEARS.fullmatch(piece) or _PRICE_OR_DECIMAL.fullmatch(piece):
        return 0.0
    if _DECIMALS.fullmatch(piece) or _DAY.fullmatch(piece):
        return 0.0
    if piece.count(".") == 3 and "(" not in piece:
        try:
            ipaddress.ip_address(piece)
        except ValueError:
            pass
        else:
            return 0.1
    if piece[0] in "+＋":
        return 0.75 if len(digits) >= 8 else 0.4
    if _NANP.fullmatch(piece):
        return 0.7 if not bare else _valid(piece, ("US",), 0.5, 0.3)
    if _THOUSANDS.fullmatch(piece) and digits[0] != "0":
        round_number = digits.endswith("000") or "." in piece or len(digits) < 9
        return 0.1 if round_number else _valid(piece, REGIONS, 0.4, 0.2)
    if digits.startswith("00") and len(digits) >= 10:
        return 0.6
    if bare:
        if len(digits) < 9:
            return 0.1
        return _valid(piece, REGIONS, 0.45, 0.1) if digits[0] == "0" or len(digits) >= 10 else 0.2
    groups = [len(group) for group in _GROUP.findall(piece)]
    if max(groups) > 8 or len(groups) > 6 or groups.count(1) > 2:
        return 0.2
    if digits[0] == "0":
        return 0.6
    if piece[0] == "(" or (len(groups) > 2 and min(groups) >= 2):
        return 0.45
    if groups == [3, 4] and not any(char.isspace() for char in piece):
        return 0.45
    return 0.2  # two plain groups: often a street number next to another number


def _certain(piece: str) -> bool:
    """Whether `piece` is a phone number even after a word for another number.

    It is one with a country code, in the American form, or from 0 on in groups with spaces.
    """
    if piece[0] in "+＋(" or _SPACED.fullmatch(piece):
        return True
    return _NANP.fullmatch(piece) is not None and not piece.isdecimal()


def _dialled(piece: str) -> bool:
    """Whether an amount such as `+100 000 000` may also be a phone number: a round or short one by its country's
    plan, another one by its length."""
    try:
        number = phonenumbers.parse(piece)
    except phonenumbers.NumberParseException:
        return False
    digits = "".join(_GROUP.findall(piece))
    if digits.endswith("000000") or len(digits) <= PHONE_DIGITS_MIN:
        return phonenumbers.is_valid_number(number)
    return phonenumbers.is_possible_number(number)


def _valid(piece: str, regions: tuple[str, ...], yes: float, no: float) -> float:
    for region in regions:
        try:
            number = phonenumbers.parse(piece, region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return yes
    return no


def _in_code(text: str, start: int, end: int) -> bool:
    """Whether letters join the digits to more digits, as in a checksum; those of an extension (`x12`) do not."""
    if _CODE_BEFORE.search(text, max(0, start - CODE_CHARS), start):
        return True
    return _CODE_AFTER.match(text, end, end + CODE_CHARS) is not None and _EXTENSION.match(text, end) is None


def _with_extension(text: str, end: int) -> int:
    extension = _EXTENSION.match(text, end)
    return extension.end() if extension else end


def _phone(text: str) -> Iterator[Hit]:
    for cluster in matches(_CLUSTER, text):
        start, end = cluster.span()
        if text[start] == "(" and ")" not in cluster.group():
            start += 1  # the bracket opens a remark, not an area code
        remark = text.find("(", max(start + 1, text.rfind(")", start, end)), end)
        piece = text[start : end if remark < 0 else remark].rstrip()
        end = start + len(piece)
        digits = "".join(_GROUP.findall(piece))
        if len(digits) < PHONE_DIGITS_MIN or _in_code(text, start, end) or is_article(text, start, piece):
            continue
        labelled = labels_phone(text, start)
        if _POSTCODE.fullmatch(piece) and not labelled:
            continue
        if not labelled and _GAINED.fullmatch(piece) and (counts_units(text, end) or not _dialled(piece)):
            continue
        if piece.count("/") >= 4:
            continue  # times of a request
        if _BYTES.fullmatch(piece) and _BYTES_BEFORE.search(text, max(0, start - 6), start):
            continue  # a dump of bytes
        if (start and text[start - 1] in "$€£#") or text[end : end + 1] == "%":
            whole = 0.1
        elif len(digits) <= PHONE_DIGITS_MAX:
            whole = _score(piece, digits)
        else:
            whole = 0.0
        bracketed = text[start - 1 : start] == "[" and text[end : end + 1] == "]"  # `[48213]` in a log
        if piece.isdecimal() and (bracketed or follows_word(text, start)):
            whole = min(whole, BARE_SCORE_MAX)
        if labelled and whole and not names_card(text, start, end):
            whole = LABELLED_SCORE
        elif whole and not _certain(piece) and _counts(text, start, end, piece, whole):
            whole = 0.0
        if whole:
            yield Hit(start, _with_extension(text, end), whole)
        if whole < 0.4 or len(digits) > 11:
            yield from _parts(text, *cluster.span())


def _counts(text: str, start: int, end: int, piece: str, score: float) -> bool:
    """Whether what is beside `piece` shows that it is the number of a thing, a part of a code, or an amount."""
    if (
        names_thing(text, start)
        or names_machine(text, start, piece)
        or counts_units(text, end)
        or (score < CODE_SCORE_MAX and starts_code(text, start))
    ):
        return True
    return _BY_YEAR.fullmatch(piece) is not None and not _says_phone(text, start)


def _says_phone(text: str, start: int) -> bool:
    """Whether the sentence has a word for a phone or a call before `start`."""
    before = text[max(0, start - CONTEXT_BEFORE_CHARS) : start].rpartition(BOUNDARY)[2]
    return PHONE_CONTEXT.search(_SENTENCE_END.split(before)[-1]) is not None


def _parts(text: str, start: int, end: int) -> Iterator[Hit]:
    """Yield phone numbers inside a longer cluster: two numbers in a row, or one after a street number or a date."""
    for match in _NANP.finditer(text, start, end):
        if len(match.group()) > len("".join(_GROUP.findall(match.group()))):
            yield Hit(match.start(), _with_extension(text, match.end()), 0.6)
    groups = [match.span() for match in _GROUP.finditer(text, start, end)]
    for first, (left, _) in enumerate(groups):
        international = left > start and text[left - 1] in "+＋"
        if not international and (first == 0 or text[left] != "0" or not text[left - 1].isspace()):
            continue
        count, right = 0, left
        for group_start, group_end in groups[first : first + PHONE_DIGITS_MAX]:
            if group_start > left and text[group_start - 1] in "+＋":
                break
            if count + group_end - group_start > (15 if international else 11):
                break
            count += group_end - group_start
            right = group_end
        if count >= 9:
            yield Hit(left - international, _with_extension(text, right), 0.6)


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("PHONE_NUMBER", _phone, PHONE_CONTEXT, digits_min=PHONE_DIGITS_MIN),)

"""IP_ADDRESS: which of the strings with the form of an address are one.

Presidio's patterns find every form of an address. Three things have such a form and are none:

* Addresses of every machine: loopback (`127.0.0.1`, `::1`) and unspecified (`0.0.0.0`, `::`), with or without a prefix
  length, and those from 255 on, which are masks of networks and the broadcast address.
* A slice or a scope in source code (`values[1::2]`, `Ad::Feed`). An IPv6 address with `::` begins with a prefix that is
  in use (2000::/3, fc00::/7, fe80::/10, ff00::/8, 64:ff9b::/96, ::ffff:0:0/96), ends with an IPv4 address, or has at
  least `GROUPS_MIN` groups. A slice by whole numbers is none even then, and one group needs more: a prefix length, or a
  word for a network near it.
* The number of a version, a section or an object: after a word for one, before an end such as `.jar`, and as a part of
  a longer number. Numbers of which none exceeds `SMALL_MAX` need more to be an address: a word for a network near them,
  another address in a list, a port or a prefix length, or a line or cell of their own. Numbers that begin with 10 are
  private addresses, and do not.

Cost: constant for each string.
"""

import ipaddress
from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit, Scan, stands_near, texts_of
from core.text.recognisers.number_words import names_version

_TEXTS = texts_of(__name__)

SMALL_MAX = 31
GROUPS_MIN = 3
SECTION_MAX = 99
PRIVATE_FIRST = 10
LINE_CHARS = 60
WORD_CHARS = 50

_IN_USE = regex.compile(
    r"[23][0-9a-f]{3}:|f[cd][0-9a-f]{2}:|fe[89ab][0-9a-f]:|ff[0-9a-f]{2}:|64:ff9b:|::(?:0:)*ffff:", regex.IGNORECASE
)
_SLICE = regex.compile(r"\d*::\d*")
_BEFORE_SLICE = regex.compile(r"(?r)[\w)\]\"'][ ]?\[[ ]?\Z")
_MORE_BEFORE = regex.compile(r"(?r)(?<![\d])(?:\d{1,10}\.)+\Z")
_MORE_AFTER = regex.compile(r"(?:\.\d{1,10})+(?!\d)")
_SECTION = regex.compile(
    rf"(?r)(?<!\p{{L}})(?:{_TEXTS['sections']})"
    r"(?:[\s._-]{0,2}(?:numbers?|nummer|nos?\.?|nr\.?|num\.?|núm\.?|numéro|número|numero|numer|n[°º])(?!\p{L}))?"
    r"[\s.:=#(\[\"'–-]{0,4}+(?:\d{1,3}(?:\.\d{1,3}){1,5}(?:[ ]?[,;/–-][ ]?|[ ]\p{L}{1,4}[ ])){0,4}\Z",
    regex.IGNORECASE,
)
_NETWORK = regex.compile(rf"(?<![\p{{L}}\d])(?:{_TEXTS['network']})(?![\p{{L}}\d])", regex.IGNORECASE)
_END = regex.compile(rf"(?r)(?<![\p{{L}}\d])(?:{_TEXTS['ends']})[\"']?[ ]?[:=][ ]?[\"'\[]?\Z", regex.IGNORECASE)
_AFTER_VERSION = regex.compile(_TEXTS["after_version"], regex.IGNORECASE)
_PORT = regex.compile(r":\d{1,5}(?![\d.])|[ ]\S{1,40}[ ]\S{1,40}[ ]\[")  # or the line of an access log
_PRODUCT = regex.compile(r"(?r)(?<![\w/.-])[A-Z]\w{1,20}/\Z")  # `Electron/31.0.7.2`
_SCHEME = regex.compile(r"(?r)(?://|@|\\\\)\[?\Z")
_ALONE_BEFORE = regex.compile(r"(?r)(?:^|[\n\r])[ \t]*(?:[-*•][ ])?[\"'`]?\Z")
_VERSION_4 = regex.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_GAP = r"[ ,;/>-]{1,3}(?:\p{L}{1,3}[ ])?"
_LIST_BEFORE = regex.compile(rf"(?r)(?<![\d.])(?:{_VERSION_4.pattern}{_GAP}){{1,4}}\Z")
_LIST_AFTER = regex.compile(rf"(?:{_GAP}{_VERSION_4.pattern}){{1,4}}(?![\d.])")
_ALONE_AFTER = regex.compile(r"[\"'`]?[,;]?[ \t]*(?:$|[\n\r])")


def addresses(scan: Scan) -> Scan:
    """Return `scan`, which finds the form of an address, without the hits that are none."""

    def filtered(text: str) -> Iterator[Hit]:
        for hit in scan(text):
            if _is_address(text, hit.start, hit.end):
                yield hit

    return filtered


def _is_address(text: str, start: int, end: int) -> bool:
    value = text[start:end].partition("/")[0]
    if _of_every_machine(value):
        return False
    if ":" in value:
        return _is_version_6(text, start, end, value)
    return _is_version_4(text, start, end, value)


def _of_every_machine(value: str) -> bool:
    """Whether this is a loopback or an unspecified address, or the mask of a network."""
    if value.startswith("255."):
        return True
    address = ipaddress.ip_address(value)
    plain = address if isinstance(address, ipaddress.IPv4Address) else address.ipv4_mapped or address
    return plain.is_loopback or plain.is_unspecified


def _is_version_6(text: str, start: int, end: int, value: str) -> bool:
    if "::" not in value or "." in value:
        return True
    if _SLICE.fullmatch(value) and _BEFORE_SLICE.search(text, max(0, start - 4), start):
        return False
    groups = len([group for group in value.split(":") if group])
    if groups == 1:
        return _IN_USE.match(value) is not None and (
            len(value) < end - start or stands_near(_NETWORK, text, start, end)
        )
    return groups >= GROUPS_MIN or _IN_USE.match(value) is not None


def _is_version_4(text: str, start: int, end: int, value: str) -> bool:
    numbers = [int(number) for number in value.split(".")]
    small = _is_small(numbers)
    before = _MORE_BEFORE.search(text, max(0, start - LINE_CHARS), start)
    after = _MORE_AFTER.match(text, end)
    if before or (after and (small or after.group().count(".") > 1)):
        return False  # one number more may be a port, as in `10.0.0.5.53`
    if names_version(text, start) or _AFTER_VERSION.match(text, end):
        return False
    if numbers[1] == 0 and numbers[0] != PRIVATE_FIRST and _PRODUCT.search(text, max(0, start - WORD_CHARS), start):
        return False
    if max(numbers) <= SECTION_MAX and _SECTION.search(text, max(0, start - WORD_CHARS), start):
        return False
    return not small or _among_addresses(text, start, end, value)


def _is_small(numbers: list[int]) -> bool:
    return max(numbers) <= SMALL_MAX and numbers[0] != PRIVATE_FIRST


def _among_addresses(text: str, start: int, end: int, value: str) -> bool:
    """Whether what is beside small numbers shows that they are an address."""
    if len(value) < end - start or _PORT.match(text, end) or _SCHEME.search(text, max(0, start - 3), start):
        return True
    before = text[max(0, start - LINE_CHARS) : start]
    listed = [found.group() for found in (_LIST_BEFORE.search(before), _LIST_AFTER.match(text, end)) if found]
    others = [other.split(".") for other in _VERSION_4.findall(" ".join(listed))]
    if not all(_is_small([*map(int, other)]) for other in others):
        return True
    if stands_near(_NETWORK, text, start, end) or _END.search(before):
        return True
    return _ALONE_BEFORE.search(before) is not None and _ALONE_AFTER.match(text, end) is not None

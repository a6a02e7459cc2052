"""Replaces places of a text by the rules of Presidio's anonymizer, in time linear in the text and its places.

Clients send places as `{"entity_type", "start", "end", "score"}`; further members are not read. Places of one type that
overlap become one; a place within another one is dropped; of two types at the same place the higher score stays; places
of one type with only spaces between them, or spaces and a line break, become one. Two types that overlap in part are
both replaced, and the earlier one ends where the later one starts. Results are listed from the end of the text.

An operator decides what becomes of a find: replace, redact, mask, hash, encrypt, keep, and decrypt. Guarantee: none.
`hash` and `encrypt` are deterministic functions of the find, a key or salt of the caller, and random bytes; a hash with
a salt that others know is found by trying values. `encrypt` is AES in CBC mode with a random initialisation vector, as
Presidio's is, so that each decrypts what the other has encrypted. It is not authenticated.
"""

import base64
import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from core.errors import InvalidInput
from service.presidio.schemas import Anonymizer, Deanonymizer

_TYPE_CHARS = 64


@dataclass(slots=True)
class TextPlace:
    """Code points [start, end) of a text."""

    start: int
    end: int
    type: str
    score: float | None


def places_of(values: Sequence[Any], *, field: str, scored: bool) -> list[TextPlace]:
    """The places of one text. `scored`: each needs a score. Raises InvalidInput, which names the number of a place."""
    return [_place(value, f"{field}.{number}", scored) for number, value in enumerate(values)]


def lists_of(texts: str | list[str], values: Sequence[Any], *, field: str) -> Iterator[tuple[str, Sequence[Any], str]]:
    """Each text with its values and their field. Raises InvalidInput unless a list of texts has a list for each."""
    if isinstance(texts, str):
        yield texts, values, field
        return
    if len(texts) != len(values) or not all(isinstance(own, list) for own in values):
        raise InvalidInput("A list of texts has a list of results for each.", field=field)
    for number, (text, own) in enumerate(zip(texts, values, strict=True)):
        yield text, own, f"{field}.{number}"


def _place(value: Any, field: str, scored: bool) -> TextPlace:
    if not isinstance(value, dict):
        raise InvalidInput("A result is an object.", field=field)
    start, end, type_, score = (value.get(name) for name in ("start", "end", "entity_type", "score"))
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        raise InvalidInput("A result has a start and, not before it, an end.", field=field)
    if not isinstance(type_, str) or not 0 < len(type_) <= _TYPE_CHARS:
        raise InvalidInput(f"A result has an entity_type of 1 to {_TYPE_CHARS} characters.", field=field)
    if type(score) not in (int, float) and (scored or score is not None):
        raise InvalidInput("A result has a score.", field=field)
    return TextPlace(start, end, type_, score)


@dataclass(frozen=True)
class ReplacedText:
    """The new text, and where each replacement is in it."""

    text: str
    items: Sequence[dict[str, Any]]


Operate = Callable[[str, str], tuple[str, str]]
"""(type, text of the place) -> (replacement, name of the operator)."""

# Places of different types that overlap in part are each read as a whole, so that many long ones would take hours.
_READ_FACTOR = 4  # the characters of all places, against those of the text
_READ_PER_PLACE = 500


def without_conflicts(text: str, places: Iterable[TextPlace]) -> list[TextPlace]:
    """The places to replace. Those that are joined are changed."""
    regions = sorted(places, key=lambda each: (each.start, each.end))
    return _joined_over_spaces(text, _not_contained(_merged_by_type(regions)))


def replaced(text: str, regions: Sequence[TextPlace], operate: Operate, *, field: str, chars_max: int) -> ReplacedText:
    """Replace the regions. Raises InvalidInput for one beyond the text, for long ones that overlap too often, and for
    more than `chars_max` characters of replacements."""
    if sum(each.end - each.start for each in regions) > _READ_FACTOR * len(text) + _READ_PER_PLACE * len(regions):
        raise InvalidInput("The places of a text overlap too often, or lie beyond its end.", field=field)
    pieces: list[str] = []
    found: list[tuple[TextPlace, str, str, int]] = []  # with the characters after the start of the replacement
    last, behind, written = len(text), 0, 0
    for region in sorted(regions, key=lambda each: (each.start, each.end), reverse=True):
        if region.end > len(text):
            raise InvalidInput("A place lies beyond the end of its text.", field=field)
        new, operator = operate(region.type, text[region.start : region.end])
        written += len(new)
        if written > chars_max:
            raise InvalidInput("The replacements of a call are too long together.", field=field)
        kept = text[min(region.end, last) : last]
        pieces += [kept, new]
        behind += len(kept) + len(new)
        last = region.start
        found.append((region, new, operator, behind))
    pieces.append(text[:last])
    size = behind + last
    items = [
        {
            "start": size - after,
            "end": size - after + len(new),
            "entity_type": region.type,
            "text": new,
            "operator": operator,
            "score": region.score,
        }
        for region, new, operator, after in found
    ]
    return ReplacedText("".join(reversed(pieces)), items)


def _merged_by_type(regions: Sequence[TextPlace]) -> list[TextPlace]:
    """Overlapping regions of one type as one, with the highest score, in the place of the last of them."""
    current: dict[str, tuple[int, TextPlace]] = {}
    kept: list[tuple[int, TextPlace]] = []
    for position, region in enumerate(regions):
        known = current.get(region.type)
        if known is not None and min(known[1].end, region.end) - max(known[1].start, region.start) > 0:
            merged = known[1]
            merged.end = max(merged.end, region.end)
            merged.score = max(merged.score or 0.0, region.score or 0.0)
            current[region.type] = position, merged
            continue
        if known is not None:
            kept.append(known)
        current[region.type] = position, region
    kept += current.values()
    kept.sort(key=lambda each: each[0])
    return [region for _, region in kept]


def _not_contained(regions: Sequence[TextPlace]) -> list[TextPlace]:
    """The regions that no other one contains. Of equal ones the last with the highest score stays."""
    order = sorted(range(len(regions)), key=lambda index: (regions[index].start, -regions[index].end))
    kept: set[int] = set()
    reached = -1
    at = 0
    while at < len(order):
        first = regions[order[at]]
        group = [order[at]]
        while at + len(group) < len(order):
            other = regions[order[at + len(group)]]
            if (other.start, other.end) != (first.start, first.end):
                break
            group.append(order[at + len(group)])
        if reached < first.end:
            kept.add(max(group, key=lambda index: (regions[index].score or 0.0, index)))
        reached = max(reached, first.end)
        at += len(group)
    return [region for index, region in enumerate(regions) if index in kept]


def _joined_over_spaces(text: str, regions: Sequence[TextPlace]) -> list[TextPlace]:
    joined: list[TextPlace] = []
    for region in regions:
        if joined and joined[-1].type == region.type:
            between = text[joined[-1].end : region.start]
            if between and not between.removesuffix("\n").strip(" ") and between != "\n":
                region.start = joined.pop().start
        joined.append(region)
    return joined


DEFAULT = "DEFAULT"
_SALT_BYTES = 32
_IV_BYTES = 16
_BLOCK_BITS = 128


def replacement(operator: Anonymizer, entity: str, text: str) -> str:
    """What replaces the find `text` of the type `entity`."""
    return ANONYMIZERS[operator.type](operator, entity, text)


def original(operator: Deanonymizer, text: str) -> str:
    """What the place `text` stood for. Raises InvalidInput for what the key did not encrypt."""
    return decrypted(operator.key or "", text) if operator.type == "decrypt" else text


def anonymizer_of(operators: Mapping[str, Anonymizer] | None, entity: str) -> Anonymizer:
    operators = operators or {}
    return operators.get(entity) or operators.get(DEFAULT) or Anonymizer(type="replace")


def deanonymizer_of(operators: Mapping[str, Deanonymizer], entity: str) -> Deanonymizer:
    """Raises InvalidInput where neither the type nor `DEFAULT` has one."""
    operator = operators.get(entity) or operators.get(DEFAULT)
    if operator is None:
        raise InvalidInput("A type of the results has no deanonymizer, and there is no DEFAULT.", field="deanonymizers")
    return operator


def _replace(operator: Anonymizer, entity: str, _: str) -> str:
    return operator.new_value or f"<{entity}>"


def _mask(operator: Anonymizer, _: str, text: str) -> str:
    count = min(len(text), max(operator.chars_to_mask or 0, 0))
    masked = (operator.masking_char or "") * count
    return text[: len(text) - count] + masked if operator.from_end else masked + text[count:]


def _hash(operator: Anonymizer, _: str, text: str) -> str:
    salt = secrets.token_bytes(_SALT_BYTES) if operator.salt is None else operator.salt.encode()
    return hashlib.new(operator.hash_type or "sha256", _bytes(text) + salt).hexdigest()


def _encrypt(operator: Anonymizer, _: str, text: str) -> str:
    padder = padding.PKCS7(_BLOCK_BITS).padder()
    vector = secrets.token_bytes(_IV_BYTES)
    encryptor = Cipher(algorithms.AES((operator.key or "").encode()), modes.CBC(vector)).encryptor()
    sealed = encryptor.update(padder.update(_bytes(text)) + padder.finalize()) + encryptor.finalize()
    return base64.urlsafe_b64encode(vector + sealed).decode()


def decrypted(key: str, text: str) -> str:
    """Raises InvalidInput, which repeats nothing of the text."""
    try:
        raw = base64.urlsafe_b64decode(text)
        decryptor = Cipher(algorithms.AES(key.encode()), modes.CBC(raw[:_IV_BYTES])).decryptor()
        unpadder = padding.PKCS7(_BLOCK_BITS).unpadder()
        padded = decryptor.update(raw[_IV_BYTES:]) + decryptor.finalize()
        return (unpadder.update(padded) + unpadder.finalize()).decode()
    except ValueError:  # also of base64, of UTF-8, and for a text that is too short
        raise InvalidInput("A place was not encrypted with this key.", field="anonymizer_results") from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


ANONYMIZERS: Mapping[str, Callable[[Anonymizer, str, str], str]] = {
    "encrypt": _encrypt,
    "hash": _hash,
    "keep": lambda _, __, text: text,
    "mask": _mask,
    "redact": lambda _, __, ___: "",
    "replace": _replace,
}
DEANONYMIZERS = ("decrypt", "deanonymize_keep")

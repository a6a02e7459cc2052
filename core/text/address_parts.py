"""The numbers of an address beside a place that a tagger has found: of the town, the building, the flat or the box.

A tagger reads words. Of an address in an unusual order it often finds the street and the town and leaves a number out,
which alone may identify a household.
"""

from __future__ import annotations

import re

_SEEN = 40  # characters on each side of a place that are read
_PARTS_MAX = 4
_UNIT = (
    r"(?i:apt|apartment|appt|suite|ste|unit|flat|psc|(?:p\.? ?o\.? ?)?box|postfach|apdo|piso|wohnung)"
    r"\.? ?(?:n[or°º]\.? ?)?#?\d{1,5}[A-Za-z]?"
)
_GAP = r"[\s,]{1,6}"
_END = r"(?![\w%€$£])(?!\.\d|,\d|[-/:]\w)"
_START = r"(?<![\w.,:/#$€£+-])"
# Five digits are a postcode beside any place; other numbers belong to a place that already has a number.
_AFTER_PLACE = re.compile(rf"{_GAP}(?:{_UNIT}|\d{{5}}){_END}")
_AFTER_ADDRESS = re.compile(rf"{_GAP}(?:{_UNIT}|\d{{3,6}}){_END}")
_BEFORE_PLACE = re.compile(rf"{_START}(?:{_UNIT}|\d{{5}}){_GAP}$")
_BEFORE_ADDRESS = re.compile(rf"{_START}(?:{_UNIT}|\d{{1,6}}[A-Za-z]?){_GAP}$")


def with_numbers(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the place `start:end`, extended by the numbers of its address. Cost: constant for each place."""
    for _ in range(_PARTS_MAX):
        address = any(map(str.isdecimal, text[start:end]))
        after = (_AFTER_ADDRESS if address else _AFTER_PLACE).match(text[end : end + _SEEN])
        first = max(0, start - _SEEN)
        before = (_BEFORE_ADDRESS if address else _BEFORE_PLACE).search(text[first:start])
        if not after and not before:
            break
        end += after.end() if after else 0
        start = first + before.start() if before else start
    return start, end

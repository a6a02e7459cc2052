"""The numbers of an address beside a place that a tagger has found: postcodes, of the building, the flat or the box.

A tagger reads words. Of an address in an unusual order it often finds the street and the town and leaves a number out,
which alone may identify a household.
"""

from __future__ import annotations

import re

_SEEN = 48  # characters on each side of a place that are read
_PARTS_MAX = 4
_UNIT = (
    r"(?i:apt|apartment|appt|suite|ste|unit|flat|psc|piso|wohnung|(?:p\.? ?o\.? ?)?box|postfach|postbus|casella postale"
    r"|bo[iî]te postale|apdo|apartado(?: de correos| postal)?|caixa postal|skr(?:ytka|\.) pocz(?:towa|t\.))"
    r"\.? ?(?:n[or°º]\.? ?)?#?\d{1,5}[A-Za-z]?"
)
# Forms of postcodes that few other numbers have: of the United Kingdom, Canada, Portugal, Poland, Brazil and the United
# States, and five or six digits. Before a town also those of the Netherlands, and of Sweden and Czechia.
_POSTCODE = r"(?:[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}|[A-Z]\d[A-Z] \d[A-Z]\d|\d{4}-\d{3}|\d{2}-\d{3}|\d{5}-\d{3,4}|\d{5,6})"
_POSTCODE_BEFORE = rf"(?:{_POSTCODE}|\d{{4}} ?[A-Z]{{2}}|\d{{3}} \d{{2}})"
_GAP = r"[\s,]{1,6}"
_END = r"(?![\w%€$£])(?!\.\d|,\d|[-/:]\w)"
_START = r"(?<![\w.,:/#$€£+-])"
# Other numbers belong to a place only if it has a number already.
_AFTER_PLACE = re.compile(rf"{_GAP}(?:{_UNIT}|{_POSTCODE}){_END}")
_AFTER_ADDRESS = re.compile(rf"{_GAP}(?:{_UNIT}|{_POSTCODE}|\d{{3,6}}){_END}")
_BEFORE_PLACE = re.compile(rf"{_START}(?:{_UNIT}|{_POSTCODE_BEFORE}){_GAP}$")
_BEFORE_ADDRESS = re.compile(rf"{_START}(?:{_UNIT}|{_POSTCODE_BEFORE}|\d{{1,6}}[A-Za-z]?){_GAP}$")


def with_numbers(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the place `start:end`, extended by the numbers of its address. Cost: constant for each place."""
    for part in range(_PARTS_MAX):
        address = part == 0 and any(map(str.isdecimal, text[start:end]))
        after = (_AFTER_ADDRESS if address else _AFTER_PLACE).match(text[end : end + _SEEN])
        first = max(0, start - _SEEN)
        before = (_BEFORE_ADDRESS if address else _BEFORE_PLACE).search(text[first:start])
        if not after and not before:
            break
        end += after.end() if after else 0
        start = first + before.start() if before else start
    return start, end

"""Names in programs: of tools, of properties, of the members of a JSON object.

A model and a client must agree on them, so they leave as they are and come back so. Their form holds no sentence, no
address, and no number of a card, an account or a telephone.
"""

from __future__ import annotations

import re

DIGITS_MAX = 8  # a date, and no number of a person
_NAME = re.compile(r"(?:[^\W\d]|\$)[\w.:/$-]{0,127}")
_UUID = re.compile(r"[0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12}")


def is_name(text: str) -> bool:
    """Whether a text has the form of a name. Digits of a UUID do not count."""
    if not _NAME.fullmatch(text):
        return False
    return sum(map(str.isdecimal, text)) <= DIGITS_MAX or sum(map(str.isdecimal, _UUID.sub("", text))) <= DIGITS_MAX


def is_key(text: str) -> bool:
    """Whether a key of a JSON object stays: a name, or the number of a row or a token."""
    return is_name(text) or (text.isdecimal() and len(text) <= DIGITS_MAX)

"""Whole numbers in headers and queries."""

from __future__ import annotations

_DIGITS_MAX = 18  # fits into 64 bits; `int` refuses texts of thousands of digits


def whole_number(text: str | None) -> int | None:
    """The number that `text` writes in up to 18 ASCII digits, else None.

    `str.isdigit` also accepts characters such as a superscript two, for which `int` raises an error.
    """
    if not text or len(text) > _DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    return int(text)

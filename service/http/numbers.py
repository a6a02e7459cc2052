"""Whole numbers in headers and queries."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

_DIGITS_MAX = 18  # fits into 64 bits; `int` refuses texts of thousands of digits


def whole_number(text: str | None) -> int | None:
    """The number that `text` writes in up to 18 ASCII digits, else None.

    `str.isdigit` also accepts characters such as a superscript two, for which `int` raises an error.
    """
    if not text or len(text) > _DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def _digits(value: str) -> str:
    if not (value.isascii() and value.isdigit()):
        raise ValueError("digits alone")
    return value


# A number of a query, exact in JSON and in Redis.
Digits = Annotated[int, BeforeValidator(_digits), Field(lt=2**53)]

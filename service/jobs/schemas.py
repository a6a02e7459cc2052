"""Rows that several kinds of job read."""

from __future__ import annotations

from service.http.strict import Strict, exactly_one_of


class TextRow(Strict):
    """One document, as exactly one of the two."""

    text: str | None = None
    sentences: list[str] | None = None

    _one_form = exactly_one_of("text", "sentences")

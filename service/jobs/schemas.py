"""Rows that several kinds of job read."""

from __future__ import annotations

from typing import Annotated

from service.config.settings import TEXTS_TAKEN
from service.http.strict import AtMost, Strict, exactly_one_of


class TextRow(Strict):
    """One document, as exactly one of the two."""

    text: str | None = None
    sentences: Annotated[list[str], AtMost(TEXTS_TAKEN)] | None = None

    _one_form = exactly_one_of("text", "sentences")

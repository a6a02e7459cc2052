"""Places of texts as clients send them: `{"entity_type", "start", "end", "score"}`, with members that are not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import InvalidInput

_TYPE_CHARS = 64


@dataclass(slots=True)
class Place:
    """Code points [start, end) of a text."""

    start: int
    end: int
    type: str
    score: float | None


def places_of(values: Sequence[Any], *, field: str, scored: bool) -> list[Place]:
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


def _place(value: Any, field: str, scored: bool) -> Place:
    if not isinstance(value, dict):
        raise InvalidInput("A result is an object.", field=field)
    start, end, type_, score = (value.get(name) for name in ("start", "end", "entity_type", "score"))
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        raise InvalidInput("A result has a start and, not before it, an end.", field=field)
    if not isinstance(type_, str) or not 0 < len(type_) <= _TYPE_CHARS:
        raise InvalidInput(f"A result has an entity_type of 1 to {_TYPE_CHARS} characters.", field=field)
    if type(score) not in (int, float) and (scored or score is not None):
        raise InvalidInput("A result has a score.", field=field)
    return Place(start, end, type_, score)

"""What a recorded conversation is made of: people, and turns in which they stand."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Kind = Literal["system", "developer", "user", "assistant", "call", "result"]


class Turn(NamedTuple):
    """One message. `text`: with placeholders such as `$a`; of a `call`, the JSON of its arguments."""

    kind: Kind
    text: str


class Tool(NamedTuple):
    """A tool of a request. `members`: of its arguments, with a description of each."""

    name: str
    description: str
    members: dict[str, str]


class Scenario(NamedTuple):
    """Turns that any cast can play. `request`: further members by their names: `user`, `author`, `metadata`."""

    name: str
    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    request: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Cast(NamedTuple):
    """Two persons, a place, an organisation and a telephone number."""

    a: str
    b: str
    city: str
    org: str
    phone: str


def casts(text: str) -> tuple[Cast, ...]:
    """Read one cast from each line: its parts between bars."""
    return tuple(Cast(*(part.strip() for part in line.split("|"))) for line in text.strip().splitlines())


def system(text: str) -> Turn:
    return Turn("system", text)


def developer(text: str) -> Turn:
    return Turn("developer", text)


def user(text: str) -> Turn:
    return Turn("user", text)


def assistant(text: str) -> Turn:
    return Turn("assistant", text)


def call(arguments: str) -> Turn:
    return Turn("call", arguments)


def result(text: str) -> Turn:
    return Turn("result", text)

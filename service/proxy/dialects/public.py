"""Shapes of members whose values are public: they leave as they are, so their form must hold no text.

| shape | what a value may be | why it is public |
| --- | --- | --- |
| `PLAIN` | a number, true or false | it chooses how the model works |
| `WORD` | a word of the published types (`words`) | the same |
| `NAME` | letters, digits and `_ . : / $ -`, with few digits | the call works by names of tools and properties |
| `LINK` | a number of a call, or what an upstream made; anything else is replaced by a pseudonym | links parts |
| `REFERENCE` | an identifier in the form that upstreams give | the upstream looks it up |
| `BLOB` | letters of base64, 24 or more | the upstream encrypted or signed it, and reads it again |
| `HOST`, `REGION`, `TIME_ZONE`, `MODEL`, `FLAG`, `VERSION` | the forms below | the upstream acts on them |

`REFUSED` is for known members that cannot be read and may hold anything: addresses with credentials, secrets.
All check requests alone, and find nothing in answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.text.reversible.mapping import DIGITS_MAX, is_name
from service.proxy.dialects.shapes import (
    Each,
    Either,
    Members,
    Path,
    Reading,
    Shape,
    refuse,
    text_of,
)
from service.proxy.dialects.words import WORDS
from service.proxy.slots import Kind, Slot

_DATED = re.compile(r"_20\d{6}$")
# Upstreams put a prefix before what they draw. The second form is a number that a client or a small server counts.
_ISSUED = re.compile(
    r"(?:asst|at|batch|call|chatcmpl(?:-tool)?|ci|cmp|cntr|compl|container|conv|ctc|ctco|cu|cuo|fc|fco|file|fs|gen|ig"
    r"|lsh|lsho|mcp|mcpa|mcpl|mcpr|mcptoolu|msg|pmpt|prof|prog|pyd_ai|req|resp|rs|sh|sho|skill|srvtoolu|thread|tool"
    r"|toolu|tooluse|ts|tsc|tso|tun|tunnel|up|vs|wrkspc|ws|apc|apco|cmpt)[_-][A-Za-z0-9_-]{8,256}"
    r"|[0-9a-f]{32,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|[A-Za-z]{1,4}|[A-Za-z]{0,4}[_-]?\d{1,4}"
)


def is_issued(text: str) -> bool:
    """Whether an identifier has a form that upstreams give."""
    return bool(_ISSUED.fullmatch(text))


@dataclass(frozen=True)
class Plain:
    def find(self, owner: Any, key: str | int, path: Path, reading: Reading) -> Iterator[Slot]:
        if reading.strict and not isinstance(owner[key], bool | int | float | None):
            raise refuse("This member must be a number, true or false; anything else would leave unread.", path)
        yield from ()


@dataclass(frozen=True)
class Form:
    """A string of a form. `expected`: what a problem says of it."""

    accepts: Any
    expected: str

    def find(self, owner: Any, key: str | int, path: Path, reading: Reading) -> Iterator[Slot]:
        value = owner[key]
        if reading.strict and value is not None and not (isinstance(value, str) and self.accepts(value)):
            raise refuse(f"This member must be {self.expected}; anything else would leave unread.", path)
        yield from ()


@dataclass(frozen=True)
class Link:
    """An identifier that links the parts of a request, such as a call of a tool and its result. One in no form of
    upstreams is replaced by the same pseudonym everywhere."""

    def find(self, owner: Any, key: str | int, path: Path, reading: Reading) -> Iterator[Slot]:
        value = owner[key]
        if not reading.strict or value is None or value == "":
            return
        if not isinstance(value, str):
            raise refuse("This member must be a string; anything else would leave unread.", path)
        if not is_issued(value):
            yield Slot(owner, key, Kind.IDENTIFIER, text_of(path))


@dataclass(frozen=True)
class Refused:
    def find(self, owner: Any, key: str | int, path: Path, reading: Reading) -> Iterator[Slot]:
        if reading.strict and owner[key] is not None:
            raise refuse("This member cannot be read and would leave as it is.", path)
        yield from ()


@dataclass(frozen=True)
class Replaced:
    """A value that the gateway replaces or has checked before."""

    def find(self, owner: Any, key: str | int, path: Path, reading: Reading) -> Iterator[Slot]:
        del owner, key, path, reading
        yield from ()


def _matches(pattern: str, *, flags: int = 0) -> Any:
    return re.compile(pattern, flags).fullmatch


def is_word(text: str) -> bool:
    return text in WORDS or _DATED.sub("", text) in WORDS


def _is_host(text: str) -> bool:
    return bool(_HOST.fullmatch(text)) and sum(map(str.isdecimal, text)) <= DIGITS_MAX


_HOST = re.compile(
    r"(?:\*\.)?(?:[a-z0-9][a-z0-9-]{0,62}\.)+[a-z][a-z0-9-]{1,62}(?:/[\w.*-]+)*/?", re.IGNORECASE | re.ASCII
)
_REGIONS = "Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc"

PLAIN = Plain()
WORD = Form(is_word, "one of the values that the API lists")
NAME = Form(
    is_name,
    f"a name of letters, digits and _ . : / $ - that begins with a letter and has at most {DIGITS_MAX} digits",
)
LINK = Link()
REFERENCE = Form(is_issued, "an identifier that the model's server gave")
BLOB = Form(_matches(r"(?:[A-Za-z0-9+/_-]{24,}={0,2})?"), "what the model's server wrote, 24 or more letters of base64")
HOST = Form(_is_host, "a name of a host, such as docs.example.org")
REGION = Form(_matches("[A-Za-z]{2}"), "a country's code of two letters")
TIME_ZONE = Form(_matches(rf"UTC|GMT|(?:{_REGIONS})(?:/[A-Za-z_]{{1,32}}(?:[+-]\d{{1,2}})?){{1,2}}"), "a time zone")
MODEL = Form(
    _matches(
        r"(?:chatgpt|claude|codex|computer-use|gpt|o[1-9]|omni-moderation|text-moderation)(?:[-.][a-z0-9.-]{1,48})?"
    ),
    "a model of the server",
)
FLAG = Form(_matches(r"[a-z0-9]+(?:-[a-z0-9]+)*-20\d\d-?\d\d-?\d\d"), "a flag of the API, which ends with a date")
VERSION = Form(_matches(r"latest|\d{1,8}|(?:bedrock-|vertex-)?20\d\d-\d\d-\d\d"), "latest, a short number or a date")
SIZE = Form(_matches(r"auto|\d{2,5}x\d{2,5}"), "auto, or a width and a height such as 1024x1024")
REFUSED = Refused()
REPLACED = Replaced()

_OF_NAMES: Mapping[str, Shape] = {
    "plain": PLAIN,
    "words": Either(string=WORD, array=Each(WORD), number=PLAIN),
    "names": Either(string=NAME, array=Each(NAME)),
    "links": LINK,
    "references": Either(string=REFERENCE, array=Each(REFERENCE)),
    "blobs": BLOB,
    "hosts": Each(HOST),
    "refused": REFUSED,
}


def record(rows: Mapping[str, Shape] | None = None, /, **names: str) -> Members:
    """An object with these rows. `names`: further members by their shape, such as `words="type role"`."""
    found = {name: _OF_NAMES[kind] for kind, each in names.items() for name in each.split()}
    return Members({**found, **(rows or {})})


def content(rows: Mapping[str, Shape] | None = None, /, **names: str) -> Members:
    """An object of a conversation with these rows: a message, a part of one, an item, a block."""
    return Members(record(rows, **names).rows, content=True)


def each(rows: Mapping[str, Shape] | None = None, /, **names: str) -> Each:
    """A list of objects with these rows."""
    return Each(record(rows, **names))

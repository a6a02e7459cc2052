"""Restores the surrogates in a JSON document that comes in pieces."""

from __future__ import annotations

import json

import regex  # type: ignore[import-untyped]

from core.text.reversible.json_text import without_halves
from core.text.reversible.key_tree import KeyTree
from core.text.reversible.names import is_key
from core.text.reversible.restorer import Restorer, restored

NUMBER_CHARS_MAX = 64
_OBJECT = "{"

_HEX = "[0-9a-fA-F]"
_HIGH, _LOW = rf"\\u[dD][89abAB]{_HEX}{{2}}", rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_IN_STRING = regex.compile(
    rf"(?P<cut>(?:{_HIGH})?\\(?:u{_HEX}{{0,3}})?\Z|{_HIGH}\Z)|(?P<end>\")|(?P<plain>[^\"\\]++)"
    rf"|(?P<escape>{_HIGH}{_LOW}|\\u{_HEX}{{4}}|\\[\"\\/bfnrt])"
)
_OUTSIDE = regex.compile(r"[^\"{}\[\],:0-9-]++|[\"{}\[\],:]|-?[0-9][0-9.eE+-]*+|-")
_NUMBER_PART = regex.compile(r"[0-9.eE+-]*+")
_NUMBER = regex.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")


class JsonRestorer:
    """Restores the values of one JSON document. Guarantee: however the document is cut, the result is valid JSON if it
    is, and parses to the document with every string as `Mapping.restore` returns it. Keys that are names are kept, and
    others are strings, which come whole. A number is restored if it is the surrogate of a number.

    A document that is not valid JSON is passed on as it is from the place on where that shows.
    """

    def __init__(self, tree: KeyTree) -> None:
        self._tree = tree
        self._open: list[str] = []  # the objects and arrays around the place
        self._key_next = False
        self._value: Restorer | None = None  # of the string that is being read, unless it is a key
        self._key: list[str] = []  # the source of the key that is being read
        self._in_string = False
        self._broken = False
        self._long_number = False  # the beginning of a number that is too long to be restored was passed on
        self._rest = ""

    def feed(self, chunk: str) -> str:
        """Take the next piece of the document. Return what is certain of the restored document."""
        return self._advance(chunk, final=False)

    def end(self) -> str:
        """Return what was held back. Nothing may be fed afterwards."""
        out = self._advance("", final=True)
        if self._value:
            out += _encoded(self._value.end())
        return out + "".join(self._key) + self._rest

    def _advance(self, chunk: str, *, final: bool) -> str:
        text, self._rest = self._rest + chunk, ""
        out: list[str] = []
        at = 0
        while at < len(text) and not self._broken:
            at = self._string(text, at, out) if self._in_string else self._outside(text, at, out, final=final)
        if self._broken:
            out.append(text[at:])
        return "".join(out)

    def _outside(self, text: str, at: int, out: list[str], *, final: bool) -> int:
        if self._long_number:
            end = int(_NUMBER_PART.match(text, at).end())
            self._long_number = end == len(text)
            out.append(text[at:end])
            return end
        found = _OUTSIDE.match(text, at)
        mark, end = found.group(), int(found.end())
        if mark[0] in "-0123456789":
            return self._number(mark, end, out, last=end == len(text) and not final)
        out.append(mark)
        if mark == '"':
            self._in_string = True
            self._value = None if self._key_next else Restorer(self._tree)
        elif mark in "{[":
            self._open.append(mark)
            self._key_next = mark == _OBJECT
        elif mark in "}]":
            if self._open:
                self._open.pop()
            self._key_next = False
        elif mark == ",":
            self._key_next = bool(self._open) and self._open[-1] == _OBJECT
        elif mark == ":":
            self._key_next = False
        return end

    def _number(self, token: str, end: int, out: list[str], *, last: bool) -> int:
        if len(token) > NUMBER_CHARS_MAX:
            self._long_number = last
            out.append(token)
        elif last:
            self._rest = token
        else:
            out.append(self._restored_number(token))
        return end

    def _restored_number(self, source: str) -> str:
        """Return the number of the original if `source` is the surrogate of a number, else `source`."""
        pieces = self._tree.find(source)
        if len(pieces) == 1 and pieces[0].value is not None:
            number = restored(pieces[0])
            return number if _NUMBER.fullmatch(number) else source
        return source

    def _restored_key(self, source: str) -> str:
        text = json.loads(f'"{source}"', strict=False)
        if not text or is_key(text):
            return source
        restorer = Restorer(self._tree)
        restored_text = restorer.feed(text) + restorer.end()
        return source if restored_text == text else _encoded(restored_text)

    def _string(self, text: str, at: int, out: list[str]) -> int:
        found = _IN_STRING.match(text, at)
        if found is None:  # an escape that there is not
            if self._value:
                out.append(_encoded(self._value.end()))
                self._value = None
            out += self._key
            self._key = []
            self._broken = True
            return at
        token, kind, end = found.group(), found.lastgroup, found.end()
        if kind == "cut":
            self._rest = token
            return int(end)
        if kind == "end":
            if self._value:
                out.append(_encoded(self._value.end()))
            out += [self._restored_key("".join(self._key)), token]
            self._in_string, self._value, self._key_next, self._key = False, None, False, []
        elif self._value is None:
            self._key.append(token)
        else:
            out.append(_encoded(self._value.feed(token if kind == "plain" else json.loads(f'"{token}"'))))
        return int(end)


def _encoded(text: str) -> str:
    return without_halves(json.dumps(text, ensure_ascii=False)[1:-1])

"""The surrogates of a conversation and their originals, and how an answer that comes in pieces is restored with them.

A mapping is built for one request and forgotten after it. It does not change, so that any number of restorers may use
it, and it may be sent between processes. Neither its `repr` nor its errors show a value. Names in programs (of tools,
of properties, of the members of a JSON object: `is_key`) leave as they are and come back so, because a model and a
client must agree on them. Their form holds no sentence, no address, and no number of a card, an account or a telephone.

This module is light: only where a mapping is made (`core.text.reversible.forms`) are the lists of words and names
needed, and a process without them may receive a `MaskedConversation`.
"""

import json
import pickle
import re
import zlib
from typing import Any, Literal, NamedTuple, Self, overload

import regex  # type: ignore[import-untyped]

from core.text.reversible.json_text import without_halves
from core.text.reversible.key_tree import KeyFinder, KeyTree, Piece
from core.text.reversible.lexing import Lexed, encoded_as

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


# ranks: of two forms that are equal, the lower one is meant
WHOLE, PART, CASE, PART_CASE, INFLECTION, BARE, PLACE, DATE, LABELLED = range(9)


class SurrogateForm(NamedTuple):
    rank: int
    written: str
    other: str  # the same form of the other value

    def __repr__(self) -> str:
        return f"Form({self.rank})"


class Rewriting(NamedTuple):
    """A form that is found by rules and not by its characters (`core.text.reversible.rewritten`). `written`: what it is
    blocked by. `plain`: what the text has, without escapes. `other`: the original in the form of `plain`."""

    rank: int
    written: str
    other: str
    plain: str

    def __repr__(self) -> str:
        return f"Rewriting({self.rank})"


def restored(piece: Piece) -> str:
    """Return what a piece of a text becomes."""
    form: SurrogateForm | Rewriting | None = piece.value
    if form is None:
        return piece.raw
    written = form.plain if isinstance(form, Rewriting) else form.written
    return form.other if piece.raw == written else encoded_as(piece.raw, written, form.other)


class TextRestorer:
    """Restores one text. Guarantee: the results together are what `Mapping.restore` gives for the whole text, however
    it is cut. Only the end of the text that may still become a surrogate is held back."""

    def __init__(self, tree: KeyTree, before: str = "") -> None:
        """`before`: what stands before the text and is no part of it, such as the key of a JSON value."""
        self._finder = KeyFinder(tree, before)

    def feed(self, chunk: str) -> str:
        """Take the next piece of the text. Return what is certain of the restored text."""
        return "".join(map(restored, self._finder.feed(chunk)))

    def end(self) -> str:
        """Return what was held back. Nothing may be fed afterwards."""
        return "".join(map(restored, self._finder.end()))


NUMBER_CHARS_MAX = 64
LABEL_CHARS_MAX = 64
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
        self._value: TextRestorer | None = None  # of the string that is being read, unless it is a key
        self._key: list[str] = []  # the source of the key that is being read
        self._label = ""  # the last key that was read
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
            self._value = None if self._key_next else TextRestorer(self._tree, self._label)
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
        pieces = self._tree.find(source, before=self._label)
        if len(pieces) == 1 and pieces[0].value is not None:
            number = restored(pieces[0])
            return number if _NUMBER.fullmatch(number) else source
        return source

    def _restored_key(self, source: str) -> str:
        text = json.loads(f'"{source}"', strict=False)
        if not text or is_key(text):
            return source
        restorer = TextRestorer(self._tree)
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
            if self._key_next:
                self._label = "".join(self._key)[-LABEL_CHARS_MAX:] + ": "
            out += [self._restored_key("".join(self._key)), token]
            self._in_string, self._value, self._key_next, self._key = False, None, False, []
        elif self._value is None:
            self._key.append(token)
        else:
            out.append(_encoded(self._value.feed(token if kind == "plain" else json.loads(f'"{token}"'))))
        return int(end)


def _encoded(text: str) -> str:
    return without_halves(json.dumps(text, ensure_ascii=False)[1:-1])


class Pair(NamedTuple):
    type: str
    original: str
    surrogate: str

    def __repr__(self) -> str:
        return f"Pair({self.type})"


class Content(NamedTuple):
    """What a mapping is made of (`core.text.reversible.forms.mapping_of`). `blocked`: forms of surrogates that stand
    for something else in the conversation and are not restored. `asked`: what an upstream that keeps the conversation
    asked for last, `turns` before the last one (`core.text.recognisers.asked`). `packed` gives bytes, to be sealed."""

    pairs: tuple[Pair, ...]
    language: str
    blocked: frozenset[str] = frozenset()
    asked: tuple[str, ...] = ()
    turns: int = 0

    def __repr__(self) -> str:
        return f"Content({len(self.pairs)} values)"

    def packed(self) -> bytes:
        content = {
            "language": self.language,
            "blocked": sorted(self.blocked),
            "pairs": [list(pair) for pair in self.pairs],
            "asked": self.asked,
            "turns": self.turns,
        }
        return zlib.compress(json.dumps(content).encode())

    @classmethod
    def unpacked(cls, packed: bytes, *, bytes_max: int) -> Self:
        """Return what `packed` has packed, of which at most `bytes_max` bytes are expanded. Raises ValueError for
        more."""
        content = json.loads(zlib.decompressobj().decompress(packed, bytes_max))
        pairs = tuple(Pair(*pair) for pair in content["pairs"])
        asked, turns = tuple(content.get("asked", ())), content.get("turns", 0)
        return cls(pairs, content["language"], frozenset(content["blocked"]), asked, turns)


class Mapping:
    """`tree`: finds each form of each surrogate that is restored. It is sent with the mapping, since it takes as long
    to make as a large conversation to read: as it is, or as the bytes of `packed`."""

    def __init__(self, content: Content, tree: KeyTree | bytes) -> None:
        self.content = content
        self._tree = tree

    def __repr__(self) -> str:
        return f"Mapping({len(self)} values)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Mapping, (self.content, self._tree)

    def __len__(self) -> int:
        return len(self.content.pairs)

    @property
    def tree(self) -> KeyTree:
        """That of a packed mapping is read once, where it is first used: for 10,000 values, in a second."""
        if isinstance(self._tree, bytes):
            self._tree = pickle.loads(self._tree)  # noqa: S301 - of `packed`, in a worker of this gateway
        assert isinstance(self._tree, KeyTree)
        return self._tree

    def packed(self) -> Self:
        """Return the mapping with its tree as bytes, so that other messages of a process do not wait for it."""
        return type(self)(self.content, pickle.dumps(self.tree))

    def restore(self, text: str, lexed: Lexed | None = None) -> str:
        """Return a whole text with the originals of the surrogates in it. `lexed`: the text, if it has been read
        before."""
        return "".join(map(restored, self.tree.find(text, lexed)))

    @overload
    def restorer(self, encoding: Literal["text"] = "text") -> TextRestorer: ...
    @overload
    def restorer(self, encoding: Literal["json"]) -> JsonRestorer: ...
    def restorer(self, encoding: Literal["text", "json"] = "text") -> TextRestorer | JsonRestorer:
        """Return what restores one text that comes in pieces. `encoding`: `json` for the source of a JSON document."""
        return JsonRestorer(self.tree) if encoding == "json" else TextRestorer(self.tree)


class Region(NamedTuple):
    """Code points [start, end) of a text that are replaced as a value of the type."""

    start: int
    end: int
    type: str


class Filled(NamedTuple):
    """Code points [start, end) of a masked text, which stand for [original_start, original_end) of the text."""

    start: int
    end: int
    type: str
    original_start: int
    original_end: int


class MaskedConversation(NamedTuple):
    """`texts`: in the order of the conversation. `filled`: the places of each that were replaced, in order. `mapping`:
    restores them, and answers to them."""

    texts: list[str]
    filled: list[list[Filled]]
    mapping: Mapping

    def __repr__(self) -> str:
        return f"MaskedConversation({len(self.texts)} texts)"

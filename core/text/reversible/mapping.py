"""The surrogates of a conversation and their originals.

A mapping is built for one request and forgotten after it. It does not change, so that any number of restorers may use
it, and it may be sent between processes. Neither its `repr` nor its errors show a value. This module is light: only
where a mapping is made (`core.text.reversible.forms`) are the lists of words and names needed.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Literal, NamedTuple, Self, overload

from core.text.reversible.json_restorer import JsonRestorer
from core.text.reversible.key_tree import KeyTree
from core.text.reversible.lexing import Lexed
from core.text.reversible.restorer import Restorer, restored


class Pair(NamedTuple):
    type: str
    original: str
    surrogate: str

    def __repr__(self) -> str:
        return f"Pair({self.type})"


class Content(NamedTuple):
    """What a mapping is made of (`core.text.reversible.forms.mapping_of`). `blocked`: forms of surrogates that stand
    for something else in the conversation and are not restored. `packed` gives bytes, to be sealed."""

    pairs: tuple[Pair, ...]
    language: str
    blocked: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Content({len(self.pairs)} values)"

    def packed(self) -> bytes:
        content = {
            "language": self.language,
            "blocked": sorted(self.blocked),
            "pairs": [list(pair) for pair in self.pairs],
        }
        return zlib.compress(json.dumps(content).encode())

    @classmethod
    def unpacked(cls, packed: bytes, *, bytes_max: int) -> Self:
        """Return what `packed` has packed, of which at most `bytes_max` bytes are expanded. Raises ValueError for
        more."""
        content = json.loads(zlib.decompressobj().decompress(packed, bytes_max))
        pairs = tuple(Pair(*pair) for pair in content["pairs"])
        return cls(pairs, content["language"], frozenset(content["blocked"]))


class Mapping:
    """`tree`: finds each form of each surrogate that is restored. It is sent with the mapping, since it takes as long
    to make as a large conversation to read."""

    def __init__(self, content: Content, tree: KeyTree) -> None:
        self.content = content
        self.tree = tree

    def __repr__(self) -> str:
        return f"Mapping({len(self)} values)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Mapping, (self.content, self.tree)

    def __len__(self) -> int:
        return len(self.content.pairs)

    def restore(self, text: str, lexed: Lexed | None = None) -> str:
        """Return a whole text with the originals of the surrogates in it. `lexed`: the text, if it has been read
        before."""
        return "".join(map(restored, self.tree.find(text, lexed)))

    @overload
    def restorer(self, encoding: Literal["text"] = "text") -> Restorer: ...
    @overload
    def restorer(self, encoding: Literal["json"]) -> JsonRestorer: ...
    def restorer(self, encoding: Literal["text", "json"] = "text") -> Restorer | JsonRestorer:
        """Return what restores one text that comes in pieces. `encoding`: `json` for the source of a JSON document."""
        return JsonRestorer(self.tree) if encoding == "json" else Restorer(self.tree)

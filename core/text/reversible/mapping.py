"""The surrogates of a conversation and their originals.

A mapping does not change, so that any number of restorers may use it. Neither its `repr` nor its errors show a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple, overload

from core.text.reversible.forms import Form, forms
from core.text.reversible.json_restorer import JsonRestorer
from core.text.reversible.key_tree import KeyTree
from core.text.reversible.restorer import Restorer, restored


class Pair(NamedTuple):
    type: str
    original: str
    surrogate: str

    def __repr__(self) -> str:
        return f"Pair({self.type})"


class Earlier(NamedTuple):
    """The mapping of earlier turns, whose surrogates a conversation keeps: what `Mapping` is made of."""

    pairs: tuple[Pair, ...]
    language: str
    blocked: frozenset[str]

    def __repr__(self) -> str:
        return f"Earlier({len(self.pairs)} values)"


class Mapping:
    """`blocked`: forms of surrogates that stand for something else in the conversation and are not restored."""

    def __init__(self, pairs: Iterable[Pair], *, language: str, blocked: AbstractSet[str] = frozenset()) -> None:
        self.pairs = tuple(pairs)
        self.language = language
        self.blocked = frozenset(blocked)
        self.tree = KeyTree(self._keys())

    def __repr__(self) -> str:
        return f"Mapping({len(self.pairs)} values)"

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def earlier(self) -> Earlier:
        """Return the mapping as the next turn of its conversation takes it."""
        return Earlier(self.pairs, self.language, self.blocked)

    def restore(self, text: str) -> str:
        """Return a whole text with the originals of the surrogates in it."""
        return "".join(map(restored, self.tree.find(text)))

    @overload
    def restorer(self, encoding: Literal["text"] = "text") -> Restorer: ...
    @overload
    def restorer(self, encoding: Literal["json"]) -> JsonRestorer: ...
    def restorer(self, encoding: Literal["text", "json"] = "text") -> Restorer | JsonRestorer:
        """Return what restores one text that comes in pieces. `encoding`: `json` for the source of a JSON document."""
        return JsonRestorer(self.tree) if encoding == "json" else Restorer(self.tree)

    def _keys(self) -> dict[str, Form]:
        """Return the forms of all surrogates. A form of two originals is left out unless it is a surrogate itself."""
        found: dict[str, Form] = {}
        unclear: set[str] = set()
        for pair in self.pairs:
            for form in forms(pair.type, pair.surrogate, pair.original, self.language):
                known = found.get(form.written)
                if known is None or form.rank < known.rank:
                    found[form.written] = form
                    unclear.discard(form.written)
                elif form.rank == known.rank and form.other != known.other:
                    unclear.add(form.written)
        return {key: form for key, form in found.items() if key not in unclear and key not in self.blocked}

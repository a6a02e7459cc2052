"""Restorers of fixed words."""

from core.text.reversible.key_tree import KeyTree
from core.text.reversible.mapping import WHOLE, Content, Mapping, SurrogateForm
from service.proxy.restorers import MappingRestorers

WORDS = {
    "Anna Muster": "Maria Weber", "Anna": "Maria", "[PERSON_1]": 'Zoë "Z" O\'Neil', "pseudo-7": "maria@example.org",
}  # fmt: skip
_TREE = KeyTree({written: SurrogateForm(WHOLE, written, other) for written, other in WORDS.items()})


def WordRestorers() -> MappingRestorers:
    return MappingRestorers(Mapping(Content((), "en"), _TREE))

"""Restorers of fixed words."""

from core.text.reversible.key_tree import KeyTree
from core.text.reversible.mapping import WHOLE, Content, Form, Mapping
from service.proxy.restorers import MappingRestorers

WORDS = {
    "Anna Muster": "Maria Weber",
    "Anna": "Maria",
    "[PERSON_1]": 'Zoë "Z" O\'Neil',
    "pseudo-7": "maria@example.org",
}
_TREE = KeyTree({written: Form(WHOLE, written, other) for written, other in WORDS.items()})


def WordRestorers() -> MappingRestorers:
    return MappingRestorers(Mapping(Content((), "en"), _TREE))

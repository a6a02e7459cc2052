"""A seeded bug: what goes wrong, in which script, and how its text changes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`edits` are pairs of an exact text, found once in `script`.lua, and what replaces it."""

    name: str
    script: str
    edits: tuple[tuple[str, str], ...]


def bug(name: str, script: str, *edits: tuple[str, str]) -> Mutant:
    return Mutant(name, script, edits)

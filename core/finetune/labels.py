"""The labels of a classification: their names are the caller's public word, never read off the rows."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import BadCorpus, InvalidInput

LABELS_MAX = 1_000


def checked_names(names: Sequence[str]) -> tuple[str, ...]:
    """The declared names, in the order of the logits. Raises InvalidInput for fewer than two, too many, or doubles."""
    if not 2 <= len(names) <= LABELS_MAX:
        raise InvalidInput(f"Between 2 and {LABELS_MAX} labels.", field="labels")
    if len(set(names)) != len(names) or not all(names):
        raise InvalidInput("Labels must differ and have a name.", field="labels")
    return tuple(names)


def label_numbers(names: Sequence[str], labels: Sequence[str]) -> list[int]:
    """Each row's label as its place among the declared names.

    Whether rows are refused depends on them: the refusal is for who sent them.

    Raises: BadCorpus with reason `unknown-label` (and the line, from 1) or `one-class`.
    """
    places = {name: place for place, name in enumerate(names)}
    numbers = []
    for line, label in enumerate(labels, start=1):
        if label not in places:
            raise BadCorpus("A row's label is none of the declared ones.", reason="unknown-label", line=line)
        numbers.append(places[label])
    if len(set(numbers)) < 2:
        raise BadCorpus("All rows have the same label.", reason="one-class", count=len(numbers))
    return numbers

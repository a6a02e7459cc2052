"""Reads and validates labelled texts from a caller: a private and a public split.

A row is `{"text", "label"}`, for pairs `{"text", "text_pair", "label"}`. `"split": "public"` assigns it to the public
split. Whether rows are rejected depends on private data, so only the sender receives the rejection. It contains the
line number and the fault, never the row's content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import InvalidInput
from core.job_errors import BadCorpus

PRIVATE, PUBLIC = "private", "public"
LABELS_MAX = 1_000


@dataclass(frozen=True)
class Split:
    """Texts, one or two for each row (the same number for all), and labels, one for each row."""

    texts: Sequence[tuple[str, ...]]
    labels: Sequence[str]


@dataclass(frozen=True)
class RowTerms:
    """What rows must match: the declared labels, whether texts are pairs, the declared number of private rows."""

    labels: tuple[str, ...]
    pairs: bool
    rows: int
    public_rows_max: int
    text_chars_max: int


def check_labels(names: Sequence[str]) -> None:
    """Check the declared labels, which are public. Raises: InvalidInput for fewer than two, too many, or duplicates."""
    if not 2 <= len(names) <= LABELS_MAX:
        raise InvalidInput(f"Declare between 2 and {LABELS_MAX} labels.", field="labels")
    if len(set(names)) != len(names) or not all(names):
        raise InvalidInput("Labels must differ and have a name.", field="labels")


def read_splits(numbered: Iterable[tuple[int, Any]], terms: RowTerms) -> tuple[Split, Split | None]:
    """Return the private split and the public one, if there is any. `numbered` are rows with their line numbers.

    Raises: BadCorpus with reason `wrong-row`, `document-too-long`, `unknown-label`, `wrong-count` (not as many private
    rows as declared), `too-many-rows` (in the public split), `one-class`.
    """
    names = frozenset(terms.labels)
    found: dict[str, tuple[list[tuple[str, ...]], list[str]]] = {PRIVATE: ([], []), PUBLIC: ([], [])}
    most = {PRIVATE: terms.rows, PUBLIC: terms.public_rows_max}
    for line, row in numbered:
        split, texts, label = _row(row, line, terms)
        if label not in names:
            raise BadCorpus("A row's label is not among the declared labels.", reason="unknown-label", line=line)
        if len(found[split][1]) == most[split]:
            if split == PRIVATE:
                raise BadCorpus("There are more private rows than declared.", reason="wrong-count", line=line)
            raise BadCorpus(f"There may be at most {most[split]} public rows.", reason="too-many-rows", line=line)
        found[split][0].append(texts)
        found[split][1].append(label)
    private, public = (Split(*found[split]) for split in (PRIVATE, PUBLIC))
    if len(private.labels) != terms.rows:
        count = len(private.labels)
        raise BadCorpus("There are fewer private rows than declared.", reason="wrong-count", count=count)
    for part in (private, public):
        if part.labels and len(set(part.labels)) < 2:
            raise BadCorpus("All rows of a split have the same label.", reason="one-class", count=len(part.labels))
    return private, public if public.labels else None


def _row(row: Any, line: int, terms: RowTerms) -> tuple[str, tuple[str, ...], str]:
    """Return split, texts and label of one row."""
    members = ("text", "text_pair", "label") if terms.pairs else ("text", "label")
    if not isinstance(row, dict) or row.keys() - {"split"} != set(members):
        raise BadCorpus(f"A row is an object of {', '.join(members)}.", reason="wrong-row", line=line)
    split = row.get("split", PRIVATE)
    if split not in (PRIVATE, PUBLIC):
        raise BadCorpus("split is private or public.", reason="wrong-row", line=line)
    if not all(isinstance(row[member], str) for member in members):
        raise BadCorpus("Texts and labels are strings.", reason="wrong-row", line=line)
    texts = tuple(row[member] for member in members[:-1])
    if sum(map(len, texts)) > terms.text_chars_max:
        most = terms.text_chars_max
        raise BadCorpus(f"A row has at most {most} characters.", reason="document-too-long", line=line, count=most)
    return split, texts, row["label"]

"""What a caller gives a training: labelled texts, in a private and a public split, and hyperparameters.

A row is `{"text", "label"}`, for pairs `{"text", "text_pair", "label"}`. `"split": "public"` assigns it to the public
split. Whether rows are rejected depends on private data, so only the sender receives the rejection. It contains the
line number and the fault, never the row's content.

Hyperparameters are what a training has beside its plan. They are public, and the guarantee does not depend on them. A
job carries them as one object from the request to the training, the artifact, the card and the result. A new one is a
field of `Hyperparameters`, a field of the request (`service.finetune.job_kind`) and its use in `gpu_workers.finetune`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import BadCorpus, InvalidInput

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


RANK, RANK_MAX = 8, 64
PIECES_MIN, PIECES, PIECES_MAX = 8, 128, 512


@dataclass(frozen=True)
class Hyperparameters:
    """Every field has a default, which is the value of artifacts and jobs from before the field existed.

    rank: of adapters or carriers. `full` has none, which artifacts show as 0.
    pieces_max: the number of word pieces read of a text, including the special ones.
    learning_rate: for Adam on the encoder's part; None selects the method's default, which artifacts show.
    weight_decay: each step first shrinks every trained weight by this times the learning rate (decoupled, as in AdamW).
        It acts on weights, which are a function of released gradients, and on no row: post-processing.
    """

    rank: int = RANK
    pieces_max: int = PIECES
    learning_rate: float | None = None
    weight_decay: float = 0.0

"""What a caller gives a training: labelled texts, in a private and a public split, and hyperparameters.

A row is `{"text", "label"}`, for pairs `{"text", "text_pair", "label"}`. A label is a text, or a whole number that
stands for its digits. `"split": "public"` assigns the row to the public split. Whether rows are rejected depends on
private data, so only the sender receives the rejection. It names the faults of all rows with their lines, and no
content.

Hyperparameters are what a training has beside its plan. They are public, and the guarantee does not depend on them. A
job carries them as one object from the request to the training, the artifact, the card and the result. A new one is a
field of `Hyperparameters`, a field of the request (`service.finetune.job_kind`) and its use in `gpu_workers.finetune`.
"""

from collections import Counter
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


_LINES_NAMED = 20


class _Faults:
    """The faults of all rows, by reason, and the first of them."""

    def __init__(self) -> None:
        self._first: BadCorpus | None = None
        self._lines: dict[str, list[int]] = {}
        self._counts: Counter[str] = Counter()

    def add(self, fault: BadCorpus) -> None:
        self._first = self._first or fault
        self._counts[fault.reason] += 1
        if self._counts[fault.reason] <= _LINES_NAMED:
            self._lines.setdefault(fault.reason, []).append(fault.line or 0)

    def refuse(self) -> None:
        """Raises the first fault, whose detail names the lines of all faults."""
        if self._first is None:
            return
        if sum(self._counts.values()) > 1:
            found = "; ".join(f"{reason} in {self._places(reason)}" for reason in self._lines)
            detail = f"{sum(self._counts.values())} rows cannot be used: {found}."
            raise BadCorpus(detail, reason=self._first.reason, line=self._first.line, count=self._first.count)
        raise self._first

    def _places(self, reason: str) -> str:
        lines, count = self._lines[reason], self._counts[reason]
        more = f" and {count - len(lines)} more" if count > len(lines) else ""
        return f"line{'s' if count > 1 else ''} {', '.join(map(str, lines))}{more}"


def read_splits(numbered: Iterable[tuple[int, Any]], terms: RowTerms) -> tuple[Split, Split | None]:
    """Return the private split and the public one, if there is any. `numbered` are rows with their line numbers, or a
    BadCorpus in place of a row that cannot be read.

    Raises: BadCorpus, whose detail names the lines of all faults, with reason `wrong-row`, `document-too-long`,
    `unknown-label`, `wrong-count` (not as many private rows as declared), `too-many-rows` (in the public split),
    `one-class`.
    """
    names = frozenset(terms.labels)
    found: dict[str, tuple[list[tuple[str, ...]], list[str]]] = {PRIVATE: ([], []), PUBLIC: ([], [])}
    most = {PRIVATE: terms.rows, PUBLIC: terms.public_rows_max}
    faults = _Faults()
    for line, row in numbered:
        try:
            split, texts, label = _row(row, line, terms)
            if label not in names:
                raise BadCorpus("A row's label is not among the declared labels.", reason="unknown-label", line=line)
        except BadCorpus as fault:
            faults.add(fault)
            continue
        if len(found[split][1]) == most[split]:
            if split == PRIVATE:
                raise BadCorpus("There are more private rows than declared.", reason="wrong-count", line=line)
            raise BadCorpus(f"There may be at most {most[split]} public rows.", reason="too-many-rows", line=line)
        found[split][0].append(texts)
        found[split][1].append(label)
    faults.refuse()
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
    if isinstance(row, BadCorpus):
        raise row
    members = ("text", "text_pair", "label") if terms.pairs else ("text", "label")
    if not isinstance(row, dict) or row.keys() - {"split"} != set(members):
        raise BadCorpus(f"A row is an object of {', '.join(members)}.", reason="wrong-row", line=line)
    split = row.get("split", PRIVATE)
    if split not in (PRIVATE, PUBLIC):
        raise BadCorpus("split is private or public.", reason="wrong-row", line=line)
    label = row["label"]
    if isinstance(label, int) and not isinstance(label, bool):
        label = str(label)
    if not isinstance(label, str) or not all(isinstance(row[member], str) for member in members[:-1]):
        raise BadCorpus("Texts are strings, and labels strings or whole numbers.", reason="wrong-row", line=line)
    texts = tuple(row[member] for member in members[:-1])
    if sum(map(len, texts)) > terms.text_chars_max:
        most = terms.text_chars_max
        raise BadCorpus(f"A row has at most {most} characters.", reason="document-too-long", line=line, count=most)
    return split, texts, label


BALANCED, UNWEIGHTED = "balanced", "none"
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
    class_weights: `balanced` for gradients in inverse proportion to the size of a row's label, or `none`.
    class_shares: the declared share of each label, which is public; None for counts under differential privacy.
    """

    rank: int = RANK
    pieces_max: int = PIECES
    learning_rate: float | None = None
    weight_decay: float = 0.0
    class_weights: str = BALANCED
    class_shares: tuple[float, ...] | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the weights need counts of the labels, which the plan pays for."""
        return self.class_weights == BALANCED and self.class_shares is None

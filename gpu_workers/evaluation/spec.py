"""The parameters of an evaluation job, and its rows. The front end builds the parameters, so no torch is imported."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from core.accounting.events import PrivacyEvent
from core.errors import BadCorpus
from gpu_workers.bulk.releasers import DocumentRows, TextRows
from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.protocol import Role
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from gpu_workers.jobs.corpus import unreadable

TEXTS_MIN, TEXTS_MAX = 200, 5_000
NAME_CHARS_MAX = 200  # of a label or a person


@dataclass(frozen=True)
class EmbeddingMethod:
    """A body of an endpoint at each epsilon of the grid: what makes its rows, and what a release of one costs for
    replacing its unit. `body`: without epsilon."""

    name: str
    endpoint: str
    body: Mapping[str, Any]
    releasers: tuple[DocumentRows | TextRows, ...]
    events: tuple[PrivacyEvent, ...]


@dataclass(frozen=True)
class SanitizingMethod:
    """A body of `/sanitize`. `task`: of a document, without its text. `role`: whose handler runs it."""

    name: str
    body: Mapping[str, Any]
    role: Role
    task: DocumentTask = field(repr=False)


@dataclass(frozen=True)
class EvaluationSpec:
    """One evaluation. `finder`: what finds the attributes in the originals, where there are policies. `releases`: how
    many of one unit the caller plans, for the bounds. `tolerance`: the share of the utility without noise that may be
    lost. `handlers`: what builds the handler of each role that the methods need."""

    name: str
    embeddings: tuple[EmbeddingMethod, ...]
    policies: tuple[SanitizingMethod, ...]
    finder: SanitizingMethod | None
    epsilons: tuple[float, ...]
    repetitions: int
    tolerance: float
    releases: int
    chars_max: int
    target: Path
    report: Path
    handlers: Mapping[Role, HandlerFactory]


@dataclass(frozen=True)
class Texts:
    """The caller's texts. `labels`, `persons`: one for each text, None where the rows have none."""

    texts: tuple[str, ...] = field(repr=False)
    labels: tuple[str, ...] | None = field(repr=False)
    persons: tuple[str, ...] | None = field(repr=False)


def read_texts(lines: Iterable[tuple[int, bytes]], *, chars_max: int) -> Texts:
    """Read rows `{"text", "label"?, "person"?}`, all with the members of the first one. Raises BadCorpus, which names
    the line and quotes nothing of it."""
    rows: list[dict[str, str]] = []
    for number, line in lines:
        row = _row(line, number, chars_max=chars_max)
        if rows and row.keys() != rows[0].keys():
            raise BadCorpus("Every row has the members of the first one.", reason="other-members", line=number)
        rows.append(row)
        if len(rows) > TEXTS_MAX:
            raise BadCorpus(f"An evaluation takes at most {TEXTS_MAX} texts.", reason="too-many-texts", line=number)
    if len(rows) < TEXTS_MIN:
        said = f"An evaluation needs at least {TEXTS_MIN} texts."
        raise BadCorpus(said, reason="too-few-texts", count=len(rows))
    columns = {name: tuple(row[name] for row in rows) for name in rows[0]}
    return Texts(columns["text"], columns.get("label"), columns.get("person"))


def _row(line: bytes, number: int, *, chars_max: int) -> dict[str, str]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise unreadable(line, number) from None
    limits = {"text": chars_max, "label": NAME_CHARS_MAX, "person": NAME_CHARS_MAX}
    if not isinstance(row, dict) or "text" not in row or not row.keys() <= limits.keys():
        raise BadCorpus('A row is {"text", "label", "person"}.', reason="wrong-row", line=number)
    for name, value in row.items():
        if not isinstance(value, str) or not value.strip():
            raise BadCorpus(f"`{name}` is text that is not empty.", reason="wrong-row", line=number)
        if len(value) > limits[name]:
            said = f"`{name}` has at most {limits[name]} characters."
            raise BadCorpus(said, reason="too-long", line=number)
    return row

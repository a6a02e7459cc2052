"""What each endpoint makes of rows in bulk: tasks for the handler of its role, and rows of the result.

Guarantee: that of the endpoint, for each row. A row becomes the same task as a document of a request does; no task is
drawn twice (`gpu_workers.engine.handler.run_batch`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from core.errors import GatewayError
from core.guarded import guarded
from core.mechanisms.vectors.spec import VectorSpec
from core.text.policy import Sanitised, Spans
from core.text.segment import sentences, windows
from gpu_workers.bulk.sources import BulkRow
from gpu_workers.bulk.targets import Kind, Schema
from gpu_workers.engine.arrays import Block, BlockArray
from gpu_workers.engine.handler import Handler, run_batch
from gpu_workers.engine.protocol import Divisible, Joined, Task
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from gpu_workers.handlers.tasks import EmbedRelease, EmbedTask, VectorTask

_BATCH_WEIGHT = 32_768  # tokens, about: a handler sorts the texts of a batch by their lengths
_LARGE_WEIGHT, _PIECE_WEIGHT = 8_192, 2_048
_FLOAT32 = "float32"

Result = Mapping[str, Any] | GatewayError


class Releaser(Protocol):
    """The rows of one endpoint. `schema`: the columns of the result, beside those of every endpoint."""

    @property
    def schema(self) -> Schema: ...

    def refused(self, row: BulkRow) -> str | None:
        """Why a row cannot be released, as a fixed word, None if it can. Such a row costs nothing."""

    def released(self, handler: Handler, rows: Sequence[BulkRow]) -> list[Result]:
        """Draw the rows: the columns of each, or the error of a row that failed."""


@dataclass(frozen=True)
class DocumentRows:
    """`/embed/sentdp`. `task`: of a document, without its units. `units`: the name of the public number of units, None
    if that number is protected. `dimension`: of a vector. `window_words`: None for sentences."""

    task: EmbedTask
    dimension: int
    units: str | None
    window_words: int | None
    units_max: int
    is_routed: bool

    @property
    def schema(self) -> Schema:
        columns: dict[str, Kind] = {"embedding": self.dimension, "space": "string"}
        if self.is_routed:
            columns["domain"] = "string"
        if self.units is not None:
            columns[self.units] = "integer"
        return columns

    def units_of(self, row: BulkRow) -> tuple[str, ...]:
        if row.sentences is not None:
            return row.sentences
        text = row.text or ""
        return tuple(sentences(text) if self.window_words is None else windows(text, self.window_words))

    def refused(self, row: BulkRow) -> str | None:
        if row.sentences is not None and self.window_words is not None:
            return "not-text"
        if row.sentences is not None and not all(unit.strip() for unit in row.sentences):
            return "empty"
        few = row.text is not None and len(row.text) <= self.units_max  # a unit has a character at least
        return None if few or len(self.units_of(row)) <= self.units_max else "too-many-units"

    def released(self, handler: Handler, rows: Sequence[BulkRow]) -> list[Result]:
        tasks = [replace(self.task, sentences=self.units_of(row)) for row in rows]
        return [
            self._columns(task, result) if isinstance(result, EmbedRelease) else result
            for task, result in zip(tasks, run_tasks(handler, tasks), strict=True)
        ]

    def _columns(self, task: EmbedTask, result: EmbedRelease) -> Result:
        columns: dict[str, Any] = {"embedding": result.vector, "space": result.space}
        if self.is_routed:
            columns["domain"] = result.domain
        if self.units is not None:
            columns[self.units] = task.size
        return columns


@dataclass(frozen=True)
class TextRows:
    """`/embed/vector` of texts. `spec`: of the mechanism, `tenant`: whose projection it uses."""

    spec: VectorSpec
    tenant: str

    @property
    def schema(self) -> Schema:
        return {"embedding": self.spec.output_dimension}

    def refused(self, row: BulkRow) -> str | None:
        return "not-text" if row.text is None else None

    def released(self, handler: Handler, rows: Sequence[BulkRow]) -> list[Result]:
        shape = (len(rows), self.spec.output_dimension)
        place = BlockArray(Block(4 * shape[0] * shape[1]), _FLOAT32, shape)
        task = VectorTask(self.spec, self.tenant, place, texts=tuple(row.text or "" for row in rows))
        (result,) = run_batch(handler, [task])
        if isinstance(result, GatewayError):
            return [result] * len(rows)
        return [{"embedding": np.array(vector)} for vector in place.read()]


@dataclass(frozen=True)
class SanitizedRows:
    """`/sanitize`. `task`: of a document, without its text. `counted`: whether the numbers of words may be shown.
    `spans`: whether the finds are."""

    task: DocumentTask = field(repr=False)
    counted: bool
    spans: bool

    @property
    def schema(self) -> Schema:
        columns: dict[str, Kind] = {"text": "string", "language": "string"}
        if self.counted:
            columns |= {"masked_tokens": "integer", "tokens": "integer"}
        if self.spans:
            columns["spans"] = {"type": "string", "technique": "string", "start": "integer", "end": "integer"}
        return columns

    def refused(self, row: BulkRow) -> str | None:
        return "not-text" if row.text is None else None

    def released(self, handler: Handler, rows: Sequence[BulkRow]) -> list[Result]:
        tasks = [replace(self.task, text=row.text or "") for row in rows]
        return [
            self._columns(result) if isinstance(result, Sanitised) else result for result in run_tasks(handler, tasks)
        ]

    def _columns(self, result: Sanitised) -> Result:
        if result.refused:
            return {"problem": "language-refused"}
        columns: dict[str, Any] = {"text": result.text, "language": result.language}
        if self.counted:
            columns |= {"masked_tokens": result.masked_tokens, "tokens": result.tokens}
        if self.spans:
            columns["spans"] = list(_spans(result.spans))
        return columns


def _spans(spans: Spans) -> Iterator[dict[str, Any]]:
    for span in spans:
        yield {"type": span.type, "technique": span.technique, "start": span.start, "end": span.end}


def run_tasks(handler: Handler, tasks: Sequence[Any]) -> list[Any]:
    """A result or an error for each task, as an engine would compute it: small ones in batches, large and stepwise ones
    in pieces (`gpu_workers.engine.protocol.Divided`)."""
    results: list[Any] = [None] * len(tasks)
    batch: list[int] = []
    weight = 0
    for place, payload in enumerate(tasks):
        own = payload.weight
        if own > _LARGE_WEIGHT or getattr(payload, "stepwise", False):
            results[place] = _run_whole(handler, Task(payload, own, getattr(payload, "stepwise", False)))
            continue
        if batch and weight + own > _BATCH_WEIGHT:
            _run(handler, tasks, batch, results)
            batch, weight = [], 0
        batch.append(place)
        weight += own
    if batch:
        _run(handler, tasks, batch, results)
    return results


def _run(handler: Handler, tasks: Sequence[Any], places: Sequence[int], results: list[Any]) -> None:
    for place, result in zip(places, run_batch(handler, [tasks[each] for each in places]), strict=True):
        results[place] = result


def _run_whole(handler: Handler, task: Task) -> Any:
    """The result of a task that may be divided, and of what follows its pieces."""
    while True:
        payload = task.payload
        divides = task.stepwise or task.weight > _LARGE_WEIGHT or getattr(payload, "only_pieces", False)
        pieces = payload.pieces(_PIECE_WEIGHT) if divides and isinstance(payload, Divisible) else None
        if pieces is None:
            (result,) = run_batch(handler, [payload])
            return result
        results = []
        for piece in pieces.tasks:
            results.append(_run_whole(handler, piece))
            if isinstance(results[-1], GatewayError):
                return results[-1]
        joined = guarded(pieces.join, results)
        if not isinstance(joined, Task):
            return joined.result if isinstance(joined, Joined) else joined
        task = joined

"""The caller's texts as vectors, encoded once, and what a method releases of them.

A release is drawn by the handler that draws for requests, from vectors that it has encoded itself, so that what is
measured is what an endpoint answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import GatewayError, JobFailed
from gpu_workers.bulk.releasers import DocumentRows, TextRows, run_tasks
from gpu_workers.bulk.sources import BulkRow
from gpu_workers.engine.arrays import Block, BlockArray
from gpu_workers.engine.handler import Handler
from gpu_workers.evaluation.spec import EmbeddingMethod
from gpu_workers.handlers.tasks import EncodeTask, VectorTask

FloatArray = npt.NDArray[np.float32]

_STEP_TEXTS = 250  # between two reports of progress


@dataclass(frozen=True)
class Source:
    """What a method releases from: the vectors of each text, float32 `[k, d]`, one row for a text as a whole, or one
    for each of its units."""

    vectors: tuple[FloatArray, ...]

    @property
    def clean(self) -> FloatArray:
        """The mean vector of each text, scaled to length 1, float32 `[n, d]`: what a release without noise is near."""
        means: FloatArray = np.stack([each.mean(axis=0) for each in self.vectors])
        return scaled(means)


def run(handler: Handler, tasks: Sequence[Any]) -> list[Any]:
    """Return the results of tasks. Raises JobFailed if one fails."""
    results = run_tasks(handler, tasks)
    for result in results:
        if isinstance(result, GatewayError):
            raise JobFailed("A method could not process a text.", reason=result.code)
    return results


def scaled(vectors: FloatArray) -> FloatArray:
    """Return the rows with length 1."""
    found: FloatArray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return found


class Encoded:
    """The texts' vectors, by the units of the methods."""

    def __init__(self, handler: Handler, texts: Sequence[str]) -> None:
        self._handler = handler
        self._texts = texts
        self._sources: dict[Any, Source] = {}

    def source(self, method: EmbeddingMethod | None, shown: Callable[[float], None]) -> Source:
        """Return the vectors of the units of a method, of whole texts for None. Raises JobFailed."""
        releaser = None if method is None else method.releasers[0]
        key = releaser.window_words or "sentences" if isinstance(releaser, DocumentRows) else "texts"
        if key not in self._sources:
            self._sources[key] = Source(tuple(self._encoded(releaser, shown)))
        return self._sources[key]

    def _encoded(self, releaser: DocumentRows | TextRows | None, shown: Callable[[float], None]) -> list[FloatArray]:
        found: list[FloatArray] = []
        for start in range(0, len(self._texts), _STEP_TEXTS):
            some = self._texts[start : start + _STEP_TEXTS]
            found += [
                each.vectors for each in run(self._handler, [EncodeTask(_units(releaser, text)) for text in some])
            ]
            shown((start + len(some)) / len(self._texts))
        return found

    def of_texts(self, texts: Sequence[str]) -> FloatArray:
        """Encode other texts as a whole, float32 `[n, d]`. Raises JobFailed."""
        found: FloatArray = np.concatenate(
            [each.vectors for each in run(self._handler, [EncodeTask((text,)) for text in texts])]
        )
        return found

    def released(self, method: EmbeddingMethod, place: int, source: Source) -> FloatArray:
        """Draw one release of each text by the method at the epsilon of this place, float32 `[n, m]`. Raises
        JobFailed."""
        return self.drawn(method.releasers[place], source.vectors)

    def drawn(self, releaser: DocumentRows | TextRows, vectors: Sequence[FloatArray]) -> FloatArray:
        """Draw one release for each of these texts, given by their vectors."""
        if isinstance(releaser, DocumentRows):
            tasks = [replace(releaser.task, sentences=None, embeddings=each, encoded=True) for each in vectors]
            return np.stack([each.vector for each in run(self._handler, tasks)])
        rows = np.concatenate(list(vectors))
        place = _block(rows.shape[0], releaser.spec.output_dimension)
        given = _block(*rows.shape)
        given.write_rows(rows, 0)
        run(self._handler, [VectorTask(releaser.spec, releaser.tenant, place, vectors=given)])
        return np.array(place.read(), dtype=np.float32)


def _units(releaser: DocumentRows | TextRows | None, text: str) -> tuple[str, ...]:
    if isinstance(releaser, DocumentRows):
        return releaser.units_of(BulkRow(0, text, None, None)) or (text,)
    return (text,)


def _block(rows: int, columns: int) -> BlockArray:
    return BlockArray(Block(4 * rows * columns), "float32", (rows, columns))

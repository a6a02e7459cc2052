"""Private release of vectors and of texts' vectors, in the embed worker.

A text is one unit: it is encoded whole, as far as the encoder's window reaches, to one vector of length 1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from core.errors import TaskFailed
from core.mechanisms.vectors.mechanism import vector_mechanism
from core.mechanisms.vectors.projection import spec_projection
from core.mechanisms.vectors.release import VectorMechanism, Vectors
from core.mechanisms.vectors.spec import VECTOR_MECHANISMS, VectorSpec, vector_spec
from gpu_workers.encoder import Encoder
from gpu_workers.shared import Array, SharedArray
from gpu_workers.tasks import VectorTask

_BLOCK_NUMBERS = 1 << 20  # released at once: what is between input and output stays small
_MECHANISMS_KEPT = 16
_FLOAT16 = np.finfo(np.float16)
_CANARY_ROWS = 4
_CANARY_DIMENSION = 8
_CANARY_TENANT = "canary"


@lru_cache(maxsize=_MECHANISMS_KEPT)
def _mechanism(spec: VectorSpec, tenant: str) -> VectorMechanism:
    return vector_mechanism(spec, spec_projection(spec, tenant=tenant))


def check_vectors() -> None:
    """Release a canary by every mechanism. Raises RuntimeError where one is not finite."""
    vectors = np.eye(_CANARY_ROWS, _CANARY_DIMENSION, dtype=np.float32)
    for name in VECTOR_MECHANISMS:
        spec = vector_spec(mechanism=name, dimension=_CANARY_DIMENSION, epsilon=1)
        if not np.isfinite(_mechanism(spec, _CANARY_TENANT).release(vectors)).all():
            raise RuntimeError("the canary release of a vector is not finite")


class VectorReleaser:
    """Releases the vectors of tasks, block by block, on `threads` threads (0: one a core)."""

    def __init__(self, encoder: Encoder, *, threads: int) -> None:
        self._encoder = encoder
        self._threads = ThreadPoolExecutor(threads or len(os.sched_getaffinity(0)))
        self._libraries = ThreadpoolController()

    def run(self, tasks: Sequence[VectorTask]) -> list[int]:
        """Release every row of every task into its shared memory; the texts of all tasks are encoded together.

        Guarantee: that of each task's mechanism (`core.mechanisms.vectors`), for each row separately.
        Returns the number of rows of each task. Raises TaskFailed where a task's shapes do not fit its spec.
        """
        texts = [text for task in tasks for text in task.texts or ()]
        encoded = self._encoder.encode(texts) if texts else None
        start = 0
        for task in tasks:
            if task.texts is not None and encoded is not None:
                self._release(task, encoded[start : start + len(task.texts)])
                start += len(task.texts)
            elif task.vectors is not None:
                self._release(task, task.vectors.read())
        return [task.released.shape[0] for task in tasks]

    def _release(self, task: VectorTask, vectors: Array) -> None:
        if task.released.shape != (len(vectors), task.spec.output_dimension):
            raise TaskFailed(reason="shape")
        mechanism = _mechanism(task.spec, task.tenant)
        step = max(1, _BLOCK_NUMBERS // task.spec.dimension)

        def release_block(start: int) -> None:
            block = np.ascontiguousarray(vectors[start : start + step], dtype=np.float32)
            _put(task.released, mechanism.release(block), start)

        if len(vectors) <= step:
            release_block(0)
            return
        # a thread a block, and no threads inside a block: noise, which is most of the work, has none of its own
        with self._libraries.limit(limits=1, user_api="blas"):
            list(self._threads.map(release_block, range(0, len(vectors), step)))


def _put(place: SharedArray, rows: Vectors, start: int) -> None:
    if place.dtype == "float16":
        # noise may lie beyond float16: a bound, not an infinity, stands for it
        place.write_rows(np.clip(rows, _FLOAT16.min, _FLOAT16.max).astype(np.float16), start)
    else:
        place.write_rows(rows, start)

"""Private release of vectors and of the vectors of texts, in the embed worker.

A text is one unit: it is encoded as a whole, up to the encoder's token limit, into one vector of length 1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from core.errors import GatewayError, TaskFailed
from core.guarded import guarded
from core.mechanisms.sentences.domain_pack import InvalidPack
from core.mechanisms.vectors.projection import Projection, VectorPack, spec_projection
from core.mechanisms.vectors.pure import Codebook, vector_mechanism
from core.mechanisms.vectors.release import VectorMechanism, Vectors, share_blocks
from core.mechanisms.vectors.spec import PACK_DIMENSION, VECTOR_MECHANISMS, VectorSpec, vector_spec
from core.memory import ByteCache
from gpu_workers.engine.arrays import Array, BlockArray
from gpu_workers.handlers.tasks import VectorTask
from gpu_workers.packs import VECTOR_PACK

if TYPE_CHECKING:
    from gpu_workers.models.encoder import Encoder
    from gpu_workers.models.integer.encoder import IntegerEncoder

_NUMBERS_AT_ONCE = 1 << 20  # for each thread, so that intermediate results stay in the cache
_KEPT_BYTES_MAX = 1 << 29  # of mechanisms, and of codebooks
_OTHER_BYTES = 1 << 16
_FLOAT16 = np.finfo(np.float16)
_CANARY_ROWS = 4
_CANARY_DIMENSION = 8
_CANARY_TENANT = "canary"


class VectorReleaser:
    """Releases the vectors of tasks. `pack`: public axes and codebooks of the encoder's space, None if there are
    none."""

    def __init__(self, encoder: Encoder | IntegerEncoder) -> None:
        self._encoder = encoder
        self._mechanisms: ByteCache[tuple[VectorSpec, str], VectorMechanism] = ByteCache(_KEPT_BYTES_MAX)
        self._codebooks: ByteCache[tuple[int, int], Codebook] = ByteCache(_KEPT_BYTES_MAX)
        self._checked: set[tuple[int, int]] = set()  # shapes of codebooks, at most seven for each dimension
        self.pack: VectorPack | None = None
        with contextlib.suppress(InvalidPack):  # the shipped pack is made for another encoder than the operator's
            self.pack = VectorPack.load(VECTOR_PACK, encoder_fingerprint=encoder.packs_of)

    def _mechanism(self, task: VectorTask) -> VectorMechanism:
        key = (task.spec, task.tenant)
        made = self._mechanisms.get(key)
        if made is None:
            made = vector_mechanism(task.spec, _projection(task), self.pack, self._codebook(task))
            self._mechanisms.put(key, made, _mechanism_bytes(made))
        return made

    def _codebook(self, task: VectorTask) -> Codebook | None:
        """Return the codebook that the task brings. Its copy is kept while there is space.

        A codebook is determined by its shape. It is checked once: the check takes a second for a large one.
        """
        if task.codebook is None:
            return None
        made = self._codebooks.get(task.codebook.shape)
        if made is None:
            shape = task.codebook.shape
            made = Codebook(torch.from_numpy(task.codebook.read().copy()), is_checked=shape in self._checked)
            self._checked.add(shape)
            self._codebooks.put(shape, made, made.nbytes)
        return made

    def check(self) -> None:
        """Release a canary by every mechanism. Raises RuntimeError if a release is not finite."""
        specs = [vector_spec(mechanism=name, dimension=_CANARY_DIMENSION, epsilon=1) for name in VECTOR_MECHANISMS]
        if self.pack is not None:
            specs.append(vector_spec(mechanism="codebook", dimension=PACK_DIMENSION, epsilon=1, projection="pca"))
        for spec in specs:
            vectors = np.eye(_CANARY_ROWS, spec.dimension, dtype=np.float32)
            mechanism = vector_mechanism(spec, spec_projection(spec, tenant=_CANARY_TENANT), self.pack)
            if not np.isfinite(mechanism.release(vectors)).all():
                raise RuntimeError("the canary release of a vector is not finite")

    def prepare(self, tasks: Sequence[VectorTask]) -> Callable[[], list[int | GatewayError]]:
        """Encode the texts of all tasks together (see `Handler.prepare`). The draw releases every row of every task
        into its block and returns the number of rows. A task that fails does not affect the others.

        Guarantee: that of each task's mechanism (`core.mechanisms.vectors`), for each row separately.
        """
        texts = [text for task in tasks for text in task.texts or ()]
        encoded = self._encoder.encode(texts) if texts else np.empty((0, 0), dtype=np.float32)

        def draw() -> list[int | GatewayError]:
            answers: list[int | GatewayError] = []
            start = 0
            for task in tasks:
                own = encoded[start : start + len(task.texts or ())]
                start += len(own)
                answers.append(guarded(self._release, task, own))
            return answers

        return draw

    def _release(self, task: VectorTask, encoded: Array) -> int:
        """Release the task's vectors, else `encoded`. Return the number of rows. Raises TaskFailed for mismatched
        shapes."""
        vectors = encoded if task.vectors is None else task.vectors.read()
        if task.released.shape != (len(vectors), task.spec.output_dimension):
            raise TaskFailed(reason="shape")
        mechanism = self._mechanism(task)
        step = max(1, _NUMBERS_AT_ONCE // task.spec.dimension)

        def work(share: list[slice]) -> None:
            for part in share:
                own = np.ascontiguousarray(vectors[part], dtype=np.result_type(vectors.dtype, np.float32))
                _put(task.released, mechanism.release(own), part.start)

        share_blocks(work, [slice(start, start + step) for start in range(0, len(vectors), step)])
        return len(vectors)


def _projection(task: VectorTask) -> Projection | None:
    spec, given = task.spec, task.projection
    if given is None:
        return spec_projection(spec, tenant=task.tenant)
    matrix = given.matrix.read()
    return Projection(spec.projection, spec.dimension, spec.output_dimension, matrix, given.spectral_norm_bound)


def _mechanism_bytes(made: VectorMechanism) -> int:
    """The memory of a mechanism, about: a projection in float32 and transposed in float64. Codebooks are shared."""
    return _OTHER_BYTES + (0 if made.projection is None else 3 * made.projection.matrix.nbytes)


def _put(place: BlockArray, rows: Vectors, start: int) -> None:
    if place.dtype == "float16":
        # Noise may exceed the range of float16: clip to the largest finite number instead of writing infinity.
        place.write_rows(np.clip(rows, _FLOAT16.min, _FLOAT16.max).astype(np.float16), start)
    else:
        place.write_rows(rows, start)

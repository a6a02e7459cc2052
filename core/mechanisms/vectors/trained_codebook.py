"""`codebook` with the projection `pca`: release the nearest of N public centroids, or another one.

Guarantee: pure epsilon-DP over all pairs of vectors, at every epsilon exactly: for any x, x' and every set S of
centroids, Pr[A(x) in S] <= e^eps Pr[A(x') in S]. This needs no assumption about the vectors.

The code c(x) of the nearest centroid is a function of that row alone (`core.mechanisms.sentences.code_space`). It goes
through k-ary randomised response over the N codes, which samples exactly: it stays with probability
e^eps / (e^eps + N - 1). The release is the centroid of the resulting code, in the encoder's own space, by a lookup.

N: `codebook_size.trained_size`.

Source: this project; randomised response: Kairouz, Bonawitz and Ramage 2016.
"""

from __future__ import annotations

import numpy as np
import torch

from core.mechanisms.samplers.discrete_noise import randomised_response
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.sentences.code_space import CodeSpace
from core.mechanisms.vectors.codebook_size import trained_size
from core.mechanisms.vectors.release import Rows, VectorMechanism, Vectors
from core.mechanisms.vectors.spec import VectorSpec
from core.mechanisms.vectors.vector_pack import VectorPack


class TrainedCodebookMechanism(VectorMechanism):
    """The module docstring has guarantee and source."""

    def __init__(self, spec: VectorSpec, pack: VectorPack) -> None:
        """Raises RuntimeError if this machine's integer products are wrong."""
        super().__init__(spec, None)
        self.size = trained_size(spec.epsilon_nano)
        self.vectors = pack.vectors(self.size)
        self._space = CodeSpace(pack.space, {self.size: pack.codebooks[self.size]}, torch.device("cpu"))
        if not self._space.self_check():
            raise RuntimeError("the integer products of this machine are wrong")

    def codes(self, vectors: Rows) -> IntArray:
        """Return the nearest centroid of each row. Without noise: not private. int64 `[n]`."""
        return self._space.nearest(torch.from_numpy(np.ascontiguousarray(vectors)), self.size)

    def _release(self, vectors: Rows, blocks: list[slice], released: Vectors) -> None:
        for block in blocks:
            codes = self.codes(vectors[block])
            kept = randomised_response(codes, size=self.size, epsilon_nano=self.spec.epsilon_nano)
            released[block] = self.vectors[kept]

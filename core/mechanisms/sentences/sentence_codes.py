"""`sentence_codes`: assign each sentence its nearest public code, add noise, and average the vectors of the codes.

Guarantee: pure epsilon-DP for replacing one sentence of a document; the number of sentences k is public. This holds
for every input vector, projection, codebook and code table, as long as those are public.

A sentence s gets the code c(s) in 0..N-1 of the nearest of N public centroids in a public space of few dimensions.
The pack selects one of two kinds of noise for each epsilon:

* `responses`: every code goes through k-ary randomised response at epsilon. Replacing one sentence changes the input
  of one response, whose output probabilities stay within e^eps. The other responses are independent of it.
* `counts`: the histogram of codes plus independent two-sided geometric noise, P(z) proportional to exp(-eps |z| / 2)
  in each bin. Replacing one sentence moves 1 from one bin to another: L1 sensitivity 2. As the noise of the two bins
  is independent, this is exactly two randomised responses at eps / 2 (`core.accounting.filters`).

Released: offset + sum_n H(n)/k * vectors(n), H the noisy histogram. This is the expected mean embedding of a public
document given such codes, a linear map fitted on public documents. It is post-processing of H, k and public tables.

The only condition on c is that it depends on that sentence alone. All its sums are sums of bounded integers, exact in
any order (`integer_vectors`), and the steps between them are elementwise.

Assumption: the encoder maps each sentence to its vector independently of the others (`gpu_workers.models.encoder`
checks this on its device). Source: this project. The setting: Meehan, Mrini and Chaudhuri 2022; randomised response at
this epsilon: Kairouz, Bonawitz and Ramage 2016; counts: Ghosh, Roughgarden and Sundararajan 2009.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from core.mechanisms.samplers.discrete_noise import randomised_response, two_sided_geometric
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.sentences.code_space import CodeSpace
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.pack_facts import CodeNoise
from core.mechanisms.sentences.release import FloatArray, SentenceMechanism

HISTOGRAM_SENSITIVITY = 2


class SentenceCodes(SentenceMechanism):
    """The module docstring has guarantee, proof and source."""

    name = "sentence_codes"
    space = "encoder"

    def __init__(self, pack: DomainPack, device: torch.device | str = "cpu") -> None:
        super().__init__(pack, device)
        self._space = CodeSpace(pack.space, pack.codebooks, self.device)
        self._code_vectors = [torch.tensor(table.vectors) for table in pack.code_tables]

    def _release(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> FloatArray:
        lengths = np.array([len(document) for document in documents])
        vectors = np.empty((len(documents), self.pack.info.dimension), dtype=np.float32)
        for epsilon in dict.fromkeys(epsilon_nano):
            chosen = np.flatnonzero(np.array(epsilon_nano) == epsilon)
            row = self.pack.info.row_for(epsilon)
            table = self.pack.code_tables[row]
            codes = self.codes([documents[int(i)] for i in chosen], table.size)
            averages = noisy_averages(self._code_vectors[row], codes, lengths[chosen], table.noise, epsilon)
            vectors[chosen] = averages + table.offset
        return vectors

    def codes(self, documents: Sequence[torch.Tensor], size: int) -> IntArray:
        """Return the codes of all sentences in the codebook of `size` centroids. Without noise: not private."""
        return self._space.nearest(torch.cat(list(documents)), size)

    def self_check(self) -> bool:
        """Whether the device's products are exact and a row's code does not depend on other rows."""
        if not self._space.self_check():
            return False
        rows = torch.nn.functional.normalize(torch.randn(37, self.pack.info.dimension), dim=1).to(self.device)
        for size in self.pack.codebooks:
            alone = [self._space.nearest(rows[i : i + 1], size) for i in range(len(rows))]
            if not np.array_equal(self._space.nearest(rows, size), np.concatenate(alone)):
                return False
        return True


def noisy_averages(
    vectors: torch.Tensor, codes: IntArray, lengths: IntArray, noise: CodeNoise, epsilon_nano: int
) -> FloatArray:
    """Return H/k @ vectors for each document, H its noisy histogram. This is the private part of the release.

    Shapes: `vectors` float32 `[N, d]`; `codes` int64, the codes of the documents' sentences, concatenated; `lengths`
    int64 `[n]`; the result is float32 `[n, d]`. Units: epsilon in nano.
    """
    size = len(vectors)
    if noise is CodeNoise.RESPONSES:
        noisy = torch.from_numpy(randomised_response(codes, size=size, epsilon_nano=epsilon_nano))
        starts = torch.from_numpy(np.cumsum(lengths) - lengths)
        sums = torch.nn.functional.embedding_bag(noisy, vectors, starts, mode="sum")
    else:
        document = np.repeat(np.arange(len(lengths)), lengths)
        counts = np.bincount(document * size + codes, minlength=len(lengths) * size)
        added = two_sided_geometric(counts.size, epsilon_nano=epsilon_nano, sensitivity=HISTOGRAM_SENSITIVITY)
        sums = torch.from_numpy((counts + added).reshape(len(lengths), size).astype(np.float32)) @ vectors
    return np.asarray(sums.numpy() / lengths[:, None], dtype=np.float32)

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

Released: offset + sum_n H(n)/k * vectors(n) + decoder(H, k), H the noisy histogram. This estimates the mean embedding
of a public document given such a histogram: a linear map and, where the pack has one, a network (`HistogramDecoder`),
both fitted on public documents. It is post-processing of H, k and public tables.

Documents of few sentences, where noise on counts would hide all codes, may have a table of their own (`short`): k is
public, so the choice of the table may depend on it. Its noise is `responses`, at an epsilon e' <= e that the price of
counts covers. For a replaced sentence, N-ary randomised response at e' has outcomes of likelihood ratio e^e', e^-e'
and 1, and gives the first a probability of a = e^e' / (e^e' + N - 1). Two binary randomised responses at e' / 2 have
the same three ratios, with b = e^e' / (1 + e^(e'/2))^2. If a <= b, the former is the latter after a replacement of
both extreme outcomes by the middle one with probability 1 - a/b, so it costs no more; and two responses at e' / 2
cost no more than two at e / 2. As a <= b is e' <= 2 log((N - 2) / 2), e' is the smaller of that and e.

The decoder adds to the linear map what that map misses. A noisy histogram H of a document of k sentences becomes the
features H/k, H/sqrt(k), 1/sqrt(k) and log(k), and three linear layers with GELU between them map these to a vector. The
network is trained on public documents through the mechanism's own noise to minimise the squared error, so linear map
and network together estimate the posterior mean of the document's vector. It is post-processing of H, k and public
weights, so it may use inexact arithmetic.

The only condition on c is that it depends on that sentence alone. All its sums are sums of bounded integers, exact in
any order (`integer_vectors`), and the steps between them are elementwise.

Assumption: the encoder maps each sentence to its vector independently of the others (`gpu_workers.models.encoder`
checks this on its device). Source: this project. The setting: Meehan, Mrini and Chaudhuri 2022; randomised response at
this epsilon: Kairouz, Bonawitz and Ramage 2016; counts: Ghosh, Roughgarden and Sundararajan 2009.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from core.amounts import NANO
from core.mechanisms.integer_vectors import CodeSpace
from core.mechanisms.samplers.discrete_noise import randomised_response, two_sided_geometric
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.sentences.domain_pack import CodeNoise, CodeTable, DomainPack, Layers
from core.mechanisms.sentences.release import FloatArray, SentenceMechanism

_SHARE_SCALE = 3.0  # brings the features, and the targets of the training, to a scale near 1
_LOG_SCALE = 1 / 3


def features(histograms: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return the network's inputs for float32 `[n, N]` noisy histograms of documents of `lengths` `[n]` sentences."""
    k = lengths.to(torch.float32)[:, None]
    return torch.cat([histograms * (_SHARE_SCALE / k), histograms * k.rsqrt(), k.rsqrt(), k.log() * _LOG_SCALE], dim=1)


class HistogramDecoder:
    """The network of one row of a pack's parameters, in main memory."""

    def __init__(self, layers: Layers) -> None:
        self._layers = [(torch.tensor(weight), torch.tensor(bias)) for weight, bias in layers]

    @torch.inference_mode()
    def of_histograms(
        self, histograms: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Map int64 `[n, N]` noisy histograms and `[n]` lengths to float32 `[n, d]`."""
        hidden = features(torch.from_numpy(histograms.astype(np.float32)), torch.from_numpy(lengths))
        for index, (weight, bias) in enumerate(self._layers):
            if index:
                hidden = torch.nn.functional.gelu(hidden)
            hidden = torch.nn.functional.linear(hidden, weight, bias)
        return np.asarray(hidden.numpy())


HISTOGRAM_SENSITIVITY = 2


def covered_epsilon(size: int, epsilon_nano: int) -> int:
    """Return the largest epsilon of responses, of at most `epsilon_nano`, that the price of counts covers.

    Units: epsilon in nano. `size` is the number of codes, at least 5 (module docstring).
    """
    return min(epsilon_nano, math.floor(2 * math.log((size - 2) / 2) * NANO) - 1)


class TableRelease:
    """The noise of one code table, and what its noisy codes stand for."""

    def __init__(self, table: CodeTable) -> None:
        self.table = table
        self.decoder = HistogramDecoder(table.decoder) if table.decoder else None
        self._vectors = torch.tensor(table.vectors)

    def release(self, codes: IntArray, lengths: IntArray, epsilon_nano: int) -> FloatArray:
        """Return the linear map of the documents' noisy histograms, plus the decoder's part if there is one.

        Shapes: `codes` int64, the codes of the documents' sentences, concatenated; `lengths` int64 `[n]`; the result is
        float32 `[n, d]`.
        """
        table, decoder = self.table, self.decoder
        if table.noise is CodeNoise.COUNTS:
            noisy = noisy_counts(table.size, codes, lengths, epsilon_nano)
        else:
            responses = randomised_response(codes, size=table.size, epsilon_nano=epsilon_nano)
            if decoder is None:  # the codes stand for the histogram, which may be large
                return averages_of_codes(self._vectors, responses, lengths) + table.offset
            noisy = counts_of_codes(table.size, responses, lengths)
        released = (noisy / lengths[:, None]).astype(np.float32) @ table.vectors + table.offset
        return np.asarray(released if decoder is None else released + decoder.of_histograms(noisy, lengths))


class SentenceCodes(SentenceMechanism):
    """The module docstring has guarantee, proof and source."""

    name = "sentence_codes"
    space = "encoder"

    def __init__(self, pack: DomainPack, device: torch.device | str = "cpu") -> None:
        super().__init__(pack, device)
        self._space = CodeSpace(pack.space, pack.codebooks, self.device)
        self._tables = [TableRelease(table) for table in pack.code_tables]
        self._short_tables = [TableRelease(table.short) if table.short else None for table in pack.code_tables]

    def _release(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> FloatArray:
        lengths = np.array([len(document) for document in documents])
        vectors = np.empty((len(documents), self.pack.info.dimension), dtype=np.float32)
        groups: dict[tuple[TableRelease, int], list[int]] = {}
        for i, (length, epsilon) in enumerate(zip(lengths, epsilon_nano, strict=True)):
            groups.setdefault(self.table_for(epsilon, sentences=int(length)), []).append(i)
        for (table, own_epsilon), chosen in groups.items():
            codes = self.codes([documents[i] for i in chosen], table.table.size)
            vectors[chosen] = table.release(codes, lengths[chosen], own_epsilon)
        return vectors

    def table_for(self, epsilon_nano: int, *, sentences: int) -> tuple[TableRelease, int]:
        """Return the table for a document of so many sentences, and the epsilon of its noise in nano."""
        row = self.pack.info.row_for(epsilon_nano)
        table, short = self._tables[row], self._short_tables[row]
        if short is None or sentences > self.pack.info.mechanism_parameters[row].short_sentences:
            return table, epsilon_nano
        if table.table.noise is CodeNoise.COUNTS:
            return short, covered_epsilon(short.table.size, epsilon_nano)
        return short, epsilon_nano

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


def noisy_counts(size: int, codes: IntArray, lengths: IntArray, epsilon_nano: int) -> IntArray:
    """Return each document's histogram of codes plus noise, int64 `[n, size]`.

    Shapes: as `counts_of_codes`. Units: epsilon in nano.
    """
    counts = counts_of_codes(size, codes, lengths)
    added = two_sided_geometric(counts.size, epsilon_nano=epsilon_nano, sensitivity=HISTOGRAM_SENSITIVITY)
    noisy: IntArray = counts + added.reshape(counts.shape)
    return noisy


def counts_of_codes(size: int, codes: IntArray, lengths: IntArray) -> IntArray:
    """Return each document's histogram of codes, int64 `[n, size]`. It has no noise of its own.

    Shapes: `codes` int64, the codes of the documents' sentences, concatenated; `lengths` int64 `[n]`.
    """
    document = np.repeat(np.arange(len(lengths)), lengths)
    counts: IntArray = np.bincount(document * size + codes, minlength=len(lengths) * size).reshape(len(lengths), size)
    return counts


def averages_of_codes(table: torch.Tensor, codes: IntArray, lengths: IntArray) -> FloatArray:
    """Return the mean of the table's rows of each document's codes: float32 `[n, d]`, from `table` `[N, d]`.

    Shapes: `codes` and `lengths` as of `counts_of_codes`.
    """
    starts = torch.from_numpy(np.cumsum(lengths) - lengths)
    means = torch.nn.functional.embedding_bag(torch.from_numpy(codes), table, starts, mode="mean")
    return np.asarray(means.numpy())

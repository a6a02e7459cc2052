"""Compute what `sentence_codes` needs for a domain from public documents alone: a space, codebooks, and code values.

The space keeps the directions in which documents differ more than the sentences of one document do. These are
generalised eigenvectors of the covariance between documents against the covariance within them; no label is needed. A
direction is kept if that ratio is at least 0.2 (a mean of 13 sentences then has 2.6 times as much variance between
documents as within), and is weighted by the fourth root of the ratio. Codebooks are k-means centroids in that space,
rounded to its integer grid.

The values of the codes are fitted with the noise included: they form the linear map with the least squared error from
noisy histograms to the exact means of public documents. The codebook and the kind of noise for an epsilon are chosen on
held-out public documents: those whose releases are nearest to the documents' own means, in the space.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from core.amounts import NANO
from core.mechanisms.integer_vectors import code_scale
from core.mechanisms.sentences.code_space import CodeSpace, Projection
from core.mechanisms.sentences.domain_pack import CodeArray, CodeTable, FloatArray
from core.mechanisms.sentences.pack_facts import CodeNoise
from core.mechanisms.sentences.sentence_codes import noisy_averages
from core.mechanisms.space import CODE_MAX, EXACT_MAX, Space
from gpu_workers.domains.public_text import Embedded

RATIO_MIN = 0.2
RANK = (8, 128)  # minimum, maximum
COUNT_SIZES = (8, 16, 24, 32, 48, 64)
RESPONSE_SIZES = (32, 64, 128, 256, 512, 1_024)
SENTENCES_A_CODE = 10  # a codebook has at most one code for this many public sentences
RIDGES = (1e-3, 1e-2, 1e-1)
_RIDGE_WITHIN = 1e-3
_RIDGE_MIN = 1e-9
_PRIOR_SENTENCES = 5  # weight, in sentences, of the corpus's mean in the mean embedding of a code
_ROUNDS = 2  # independent draws of noise over the same documents
_COUNTS_EPSILON_MAX = 12.0  # above, responses have nearly no noise and counts are no better
_KEPT_MIN = 0.25  # responses that keep a smaller share of the codes are not tried
_RESTARTS = 6  # of k-means for the small codebooks, where the results of different starts differ most
_RESTARTS_EPSILON_NANO = 3 * NANO
_KMEANS_ROWS_MAX = 60_000

Doubles = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Geometry:
    """The space, and the real axes from which it is derived: y = (s - centre) @ axes, before rounding."""

    space: Space
    axes: Doubles
    centre: Doubles

    def places(self, vectors: npt.NDArray[np.floating]) -> Doubles:
        return np.asarray((vectors - self.centre) @ self.axes, dtype=np.float64)


@dataclass(frozen=True)
class Fitted:
    """A table for one epsilon, and its score on held-out documents (1: perfect, 0: as good as the corpus's mean)."""

    table: CodeTable
    score: float


def _covariances(corpus: Embedded) -> tuple[Doubles, Doubles]:
    """Covariance of sentences within documents, and of the documents' true means, both unbiased: `[d, d]` each."""
    means = corpus.means().astype(np.float64)
    document = np.repeat(np.arange(len(corpus.lengths)), corpus.lengths)
    deviations = corpus.vectors - means[document]
    within = deviations.T @ deviations / max(1, len(deviations) - len(means))
    spread = means - means.mean(axis=0)
    between = spread.T @ spread / len(means) - within * np.mean(1.0 / corpus.lengths)
    return within, between


def geometry(parts: list[Embedded]) -> Geometry:
    """Compute the space of a domain. `parts` are its corpora; the differences between corpora are not counted."""
    from scipy.linalg import eigh

    pairs = [_covariances(part) for part in parts]
    within: Doubles = np.mean([pair[0] for pair in pairs], axis=0)
    between: Doubles = np.mean([pair[1] for pair in pairs], axis=0)
    dimension = len(within)
    # The minimum is for a corpus whose documents each repeat one sentence: its variance within documents is zero.
    ridge = max(_RIDGE_WITHIN * np.trace(within) / dimension, _RIDGE_MIN)
    ratios, directions = eigh(between, within + ridge * np.eye(dimension))
    ratios, directions = ratios[::-1], directions[:, ::-1]
    rank = min(dimension, max(RANK[0], min(RANK[1], int((ratios >= RATIO_MIN).sum()))))
    axes = directions[:, :rank] * np.maximum(ratios[:rank], 1e-6) ** 0.25
    vectors = np.concatenate([part.vectors for part in parts])
    centre = vectors.mean(axis=0, dtype=np.float64)
    # One grid serves all axes. It is fine enough for the widest: four standard deviations reach the end of the grid.
    step = CODE_MAX / (4.0 * float(((vectors[:50_000] - centre) @ axes).std(axis=0).max()))
    return Geometry(integer_space(axes, centre, step), axes, centre)


def integer_space(axes: Doubles, centre: Doubles, step: float) -> Space:
    """Return the integer form of y = step * (s - centre) @ axes."""
    widest = np.abs(axes).max(axis=0)
    reach = np.abs(axes).sum(axis=0)
    unit = np.minimum(CODE_MAX / widest, 0.99 * EXACT_MAX / CODE_MAX / reach)  # grid units per axis
    factor = step / (unit * code_scale(len(axes)))
    return Space(
        # safetensors writes the array in its memory layout
        directions=np.ascontiguousarray(np.round(axes * unit).T, dtype=np.int8),
        factor=factor.astype(np.float32),
        shift=(-step * (centre @ axes)).astype(np.float32),
    )


def codebook(places: CodeArray, size: int, seed: int, *, starts: int = 1) -> CodeArray:
    """`size` centroids of public int8 places `[n, r]`, by k-means. A small codebook is the best of `starts`."""
    from sklearn.cluster import KMeans, MiniBatchKMeans

    rows = places.astype(np.float32)
    if size <= max(COUNT_SIZES):
        rows = rows[np.random.default_rng(seed).permutation(len(rows))[:_KMEANS_ROWS_MAX]]
        model = KMeans(size, n_init=starts, max_iter=50, random_state=seed).fit(rows)
    else:
        model = MiniBatchKMeans(size, n_init=1, batch_size=8_192, max_iter=30, random_state=seed).fit(rows)
    centroids: CodeArray = np.clip(np.round(model.cluster_centers_), -CODE_MAX, CODE_MAX).astype(np.int8)
    return centroids


class Fitter:
    """Codebooks and tables of one domain. They are fitted on some public documents and chosen on others."""

    def __init__(
        self,
        shape: Geometry,
        public: Embedded,
        held: Embedded,
        seed: int,
        sizes: Iterable[int] = (*COUNT_SIZES, *RESPONSE_SIZES),
    ) -> None:
        self._shape, self._public, self._held = shape, public, held
        self._means = public.means().astype(np.float64)
        self._truth = shape.places(held.means())
        projection = Projection(shape.space, torch.device("cpu"))
        places = np.concatenate(
            [
                projection.coordinates(torch.from_numpy(public.vectors[start : start + 8_192])).numpy()
                for start in range(0, len(public.vectors), 8_192)
            ]
        )
        self.codebooks: dict[int, CodeArray] = {}
        self._codes: dict[int, Codes] = {}
        self._held_codes: dict[int, Codes] = {}
        most = max(min(RESPONSE_SIZES), len(places) // SENTENCES_A_CODE)
        for size in sorted({size for size in sizes if size <= most}):
            if size not in COUNT_SIZES:
                self._use(codebook(places, size, seed))
                continue
            tried = [(self._trial(codebook(places, size, seed + start)), seed + start) for start in range(_RESTARTS)]
            self._use(codebook(places, size, max(tried)[1]))

    def best(self, epsilon_nano: int) -> Fitted:
        """Return the table with the best score for this epsilon."""
        tried = []
        if epsilon_nano <= _COUNTS_EPSILON_MAX * NANO:
            tried += [(size, CodeNoise.COUNTS) for size in COUNT_SIZES]
        kept = math.exp(min(epsilon_nano / NANO, 100.0))
        tried += [(size, CodeNoise.RESPONSES) for size in RESPONSE_SIZES if kept >= _KEPT_MIN * (kept + size - 1)]
        fitted = [self.fitted(size, noise, epsilon_nano) for size, noise in tried if size in self.codebooks]
        return max(fitted, key=lambda each: each.score)

    def _use(self, centroids: CodeArray) -> None:
        size = len(centroids)
        space = CodeSpace(self._shape.space, {size: centroids}, torch.device("cpu"))
        self.codebooks[size] = centroids
        self._codes[size] = space.nearest(torch.from_numpy(self._public.vectors), size)
        self._held_codes[size] = space.nearest(torch.from_numpy(self._held.vectors), size)

    def _trial(self, centroids: CodeArray) -> float:
        """Return the score of counts over these centroids at the reference epsilon."""
        self._use(centroids)
        return self.fitted(len(centroids), CodeNoise.COUNTS, _RESTARTS_EPSILON_NANO).score

    def fitted(self, size: int, noise: CodeNoise, epsilon_nano: int) -> Fitted:
        """Return the table of this codebook and noise, with the best ridge."""
        if noise is CodeNoise.COUNTS:
            basis: FloatArray = np.eye(size, dtype=np.float32)
        else:  # the code values without noise; the fit then rotates and shrinks them
            sums = np.zeros((size, self._public.vectors.shape[1]))
            np.add.at(sums, self._codes[size], self._public.vectors)
            seen = np.bincount(self._codes[size], minlength=size)[:, None]
            sums += _PRIOR_SENTENCES * self._means.mean(axis=0)
            basis = (sums / (seen + _PRIOR_SENTENCES)).astype(np.float32)
        codes, lengths = self._codes[size], self._public.lengths
        meanings = torch.from_numpy(basis)
        noisy = [noisy_averages(meanings, codes, lengths, noise, epsilon_nano) for _ in range(_ROUNDS)]
        inputs, targets = np.concatenate(noisy).astype(np.float64), np.tile(self._means, (_ROUNDS, 1))
        middle, goal = inputs.mean(axis=0), targets.mean(axis=0)
        moved = inputs - middle
        square = moved.T @ moved
        cross = moved.T @ (targets - goal)
        tried = []
        for ridge in RIDGES:
            weights = np.linalg.solve(square + ridge * np.trace(square) / len(square) * np.eye(len(square)), cross)
            table = CodeTable(noise, _half(basis @ weights), _half(goal - middle @ weights))
            tried.append(Fitted(table, self._score(table, epsilon_nano)))
        return max(tried, key=lambda fitted: fitted.score)

    def _score(self, table: CodeTable, epsilon_nano: int) -> float:
        """The share of the variance of held-out means, in the space, that the releases explain."""
        lengths = self._held.lengths
        meanings = torch.from_numpy(table.vectors)
        missed = 0.0
        for _ in range(_ROUNDS):
            averages = noisy_averages(meanings, self._held_codes[table.size], lengths, table.noise, epsilon_nano)
            released = averages + table.offset
            missed += np.square(self._shape.places(released) - self._truth).sum() / _ROUNDS
        return float(1.0 - missed / np.square(self._truth - self._truth.mean(axis=0)).sum())


def _half(array: npt.NDArray[np.floating]) -> FloatArray:
    """Round to the precision of the file."""
    return array.astype(np.float16).astype(np.float32)

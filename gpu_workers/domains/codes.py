"""Compute what `sentence_codes` needs for a domain from public documents alone: a space, codebooks, and code values.

The space keeps the directions in which documents differ more than the sentences of one document do. These are
generalised eigenvectors of the covariance between documents against the covariance within them. Where the documents
have public labels, the covariance between the classes is added to that between documents. A direction is kept if its
ratio is at least 0.2 (a mean of 13 sentences then has 2.6 times as much variance between documents as within), and is
weighted by the fourth root of the ratio.

A space of few documents is uncertain. It is therefore blended with the `general` pack's space where the encoder is the
same (`Geometry.blended`).

The codebooks and the meaning of their noisy histograms are learned (`learned_codes`). Number of codes and kind of noise
are constants for each epsilon (`DOMAIN_ROWS` for one kind of text): noise on a document's counts where few codes stand
out of it, randomised response of each code from epsilon 6 on. Documents of one or two sentences get responses from
epsilon 2 on: noise on counts would hide all of their codes (`CodesRow.short`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from core.mechanisms.integer_vectors import code_scale
from core.mechanisms.sentences.domain_pack import CodeArray, CodeNoise, CodeTable, FloatArray
from core.mechanisms.space import CODE_MAX, EXACT_MAX, Space
from gpu_workers.domains.learned_codes import DOCUMENTS_A_STEP, LabelTask, Learner, placed
from gpu_workers.domains.spec import Embedded

RATIO_MIN = 0.2
RANK = (8, 128)  # minimum, maximum
LABEL_WEIGHT = 2.0  # of one task's classes: the sum of the ratios that they add
SHORT_SENTENCES = 2


class CodesRow(NamedTuple):
    """The codes from one epsilon on. `short` is the number of codes, by responses, for documents of at most
    `SHORT_SENTENCES`, 0 for none. It is the size of the codebook of this or an earlier row."""

    codes: int
    noise: CodeNoise
    short: int = 0


DOMAIN_ROWS = {  # of a pack of one kind of text, in which fewer codes suffice than in the shipped `general` pack
    0.5: CodesRow(6, CodeNoise.COUNTS),
    1.0: CodesRow(10, CodeNoise.COUNTS),
    2.0: CodesRow(12, CodeNoise.COUNTS, short=12),
    3.0: CodesRow(16, CodeNoise.COUNTS, short=16),
    4.5: CodesRow(20, CodeNoise.COUNTS, short=20),
    6.0: CodesRow(32, CodeNoise.RESPONSES),
    8.0: CodesRow(128, CodeNoise.RESPONSES),
    10.0: CodesRow(512, CodeNoise.RESPONSES),
    15.0: CodesRow(1_024, CodeNoise.RESPONSES),
}
KNOWN_DOCUMENTS = 500
SENTENCES_A_CODE = 10  # a codebook has at most one code for this many public sentences
CLUSTERS = 30
STEPS_MIN = 60
EPOCHS = 60
LEARNED_MAX = 256  # larger codebooks stay k-means centroids, which keep more of what no task asks for
_DOCUMENTS_A_CLUSTER = 10
_RIDGE_WITHIN = 1e-3
_RIDGE_MIN = 1e-9
_SCALE_MIN = 1e-3  # of the widest axis
_CODES_AT_LEAST = 32
_STARTS = 4  # of k-means for the small codebooks, where the results of different starts differ most
_SMALL = 64  # codes
_KMEANS_ROWS = 60_000
_SAMPLE_ROWS = 50_000

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

    def blended(self, known: Space, corpora: Sequence[Embedded]) -> Geometry:
        """Return the space whose squared distances are a weighted mean of this space's and those of `known`, a space of
        other public documents of the same encoder.

        The weight of `known` is that of `KNOWN_DOCUMENTS` further documents. `corpora` are the corpora of this space.
        """
        documents = sum(len(corpus.lengths) for corpus in corpora)
        weight = KNOWN_DOCUMENTS / (KNOWN_DOCUMENTS + documents)
        other = known.directions.T.astype(np.float64) * known.factor
        together = np.hstack(
            [
                self.axes * (np.sqrt(1 - weight) / np.linalg.norm(self.axes)),
                other * (np.sqrt(weight) / np.linalg.norm(other)),
            ]
        )
        directions, scales, _ = np.linalg.svd(together, full_matrices=False)
        rank = min(RANK[1], int((scales > _SCALE_MIN * scales[0]).sum()))
        return on_grid(directions[:, :rank] * scales[:rank], self.centre, corpora)


def _covariances(corpus: Embedded) -> tuple[Doubles, Doubles]:
    """Covariance of sentences within documents, and of the documents' true means, both unbiased: `[d, d]` each."""
    means = corpus.means().astype(np.float64)
    document = np.repeat(np.arange(len(corpus.lengths)), corpus.lengths)
    deviations = corpus.vectors - means[document]
    within = deviations.T @ deviations / max(1, len(deviations) - len(means))
    spread = means - means.mean(axis=0)
    between = spread.T @ spread / len(means) - within * np.mean(1.0 / corpus.lengths)
    return within, between


def _class_covariance(corpus: Embedded, classes: Codes) -> Doubles:
    """Covariance of the class means of the documents' means, `[d, d]`. Documents of class -1 are left out."""
    means = corpus.means().astype(np.float64)[classes >= 0]
    _, place, counts = np.unique(classes[classes >= 0], return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), means.shape[1]))
    np.add.at(sums, place, means)
    away = (sums / counts[:, None] - means.mean(axis=0)) * np.sqrt(counts / len(means))[:, None]
    return np.asarray(away.T @ away, dtype=np.float64)


def geometry(corpora: list[Embedded], tasks: Sequence[LabelTask] = ()) -> Geometry:
    """Compute the space of a domain. `corpora` are its corpora; the differences between corpora are not counted.

    `tasks` are the public labels that the space must keep apart.
    """
    from scipy.linalg import eigh

    # A corpus of single sentences says nothing about the differences within a document.
    pairs = [_covariances(corpus) for corpus in corpora if corpus.lengths.mean() > 1.5]
    within: Doubles = np.mean([pair[0] for pair in pairs], axis=0)
    between: Doubles = np.mean([pair[1] for pair in pairs], axis=0)
    dimension = len(within)
    # The minimum is for a corpus whose documents each repeat one sentence: its variance within documents is zero.
    ridge = max(_RIDGE_WITHIN * np.trace(within) / dimension, _RIDGE_MIN)
    noise = within + ridge * np.eye(dimension)
    for task in tasks:
        apart = _class_covariance(corpora[task.corpus], task.classes)
        between = between + LABEL_WEIGHT * apart / max(np.trace(np.linalg.solve(noise, apart)), _RIDGE_MIN)
    ratios, directions = eigh(between, noise)
    ratios, directions = ratios[::-1], directions[:, ::-1]
    rank = min(dimension, max(RANK[0], min(RANK[1], int((ratios >= RATIO_MIN).sum()))))
    axes = directions[:, :rank] * np.maximum(ratios[:rank], 1e-6) ** 0.25
    vectors = np.concatenate([corpus.vectors for corpus in corpora])
    centre = vectors.mean(axis=0, dtype=np.float64)
    return on_grid(axes, centre, corpora)


def on_grid(axes: Doubles, centre: Doubles, corpora: Sequence[Embedded]) -> Geometry:
    """Return the geometry of these axes for sentences such as those of `corpora`.

    One grid serves all axes. It is fine enough for the widest: four standard deviations reach the end of the grid.
    """
    step = CODE_MAX / (4.0 * float(((balanced(corpora, _SAMPLE_ROWS) - centre) @ axes).std(axis=0).max()))
    return Geometry(integer_space(axes, centre, step), axes, centre)


def balanced(corpora: Sequence[Embedded], rows: int) -> FloatArray:
    """Return about `rows` sentence vectors, as many of each corpus."""
    draw = np.random.default_rng(0)
    share = max(1, rows // len(corpora))
    return np.concatenate([corpus.vectors[draw.permutation(len(corpus.vectors))[:share]] for corpus in corpora])


def clusters(corpora: Sequence[Embedded], shape: Geometry, seed: int) -> list[LabelTask]:
    """Return a task for each corpus that needs no label: the k-means cluster of a document's mean, in the space."""
    from sklearn.cluster import KMeans

    tasks = []
    for number, corpus in enumerate(corpora):
        count = min(CLUSTERS, len(corpus.lengths) // _DOCUMENTS_A_CLUSTER)
        if count >= 2:
            found = KMeans(count, n_init=1, random_state=seed).fit_predict(shape.places(corpus.means()))
            tasks.append(LabelTask(number, found.astype(np.int64)))
    return tasks


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
    if size <= _SMALL:
        rows = rows[np.random.default_rng(seed).permutation(len(rows))[:_KMEANS_ROWS]]
        model = KMeans(size, n_init=starts, max_iter=50, random_state=seed).fit(rows)
    else:
        model = MiniBatchKMeans(size, n_init=1, batch_size=8_192, max_iter=30, random_state=seed).fit(rows)
    centroids: CodeArray = np.clip(np.round(model.cluster_centers_), -CODE_MAX, CODE_MAX).astype(np.int8)
    return centroids


def learned_tables(
    shape: Geometry,
    corpora: Sequence[Embedded],
    tasks: Sequence[LabelTask],
    seed: int,
    *,
    rows: Mapping[float, CodesRow],
    steps: int,
    on_update: Callable[[float], None],
) -> tuple[dict[int, CodeArray], dict[float, CodeTable]]:
    """Return the codebooks by size and the code tables by epsilon, in the order of the `rows`.

    Rows of one size share a codebook, learned at the smallest of their epsilons. `steps` is the length of each
    training, of which a small corpus takes fewer. `on_update` is called with the finished share.
    """
    learner = Learner(corpora, shape.space, shape.axes, seed)
    sample = placed(balanced(corpora, _KMEANS_ROWS), shape.space)
    known = [*tasks, *clusters(corpora, shape, seed)]
    documents = sum(len(corpus.lengths) for corpus in corpora)
    steps = min(steps, max(STEPS_MIN, documents * EPOCHS // DOCUMENTS_A_STEP))
    most = max(_CODES_AT_LEAST, sum(map(len, (corpus.vectors for corpus in corpora))) // SENTENCES_A_CODE)
    books: dict[int, CodeArray] = {}
    tables: dict[float, CodeTable] = {}

    def finished(done: int, share: float) -> None:
        on_update((done + share) / len(rows))

    for done, (epsilon, row) in enumerate(rows.items()):
        size = min(row.codes, most)
        start = books[size] if size in books else codebook(sample, size, seed, starts=_STARTS)
        learn = partial(learner.learn, tasks=known, epsilon=epsilon, steps=steps, on_update=partial(finished, done))
        fixed = size in books or size > LEARNED_MAX
        books[size], table = learn(start, noise=row.noise, fixed=fixed)
        short = None
        if row.short:
            _, short = learn(books[row.short], noise=CodeNoise.RESPONSES, fixed=True, longest=SHORT_SENTENCES)
        tables[epsilon] = replace(table, short=short)
    return books, tables

"""Codes learned from public documents: what they tell apart, what a release is worth, and that a build repeats."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tiers import cells

from core.mechanisms.integer_vectors import CodeSpace
from core.mechanisms.samplers.discrete_noise import randomised_response
from core.mechanisms.sentences.domain_pack import CodeNoise, CodeTable, DomainPack
from core.mechanisms.sentences.sentence_codes import HistogramDecoder, counts_of_codes, noisy_counts
from gpu_workers.domains import codes, learned_codes
from gpu_workers.domains.build_pack import known_space, label_tasks
from gpu_workers.domains.codes import CodesRow
from gpu_workers.domains.learned_codes import LabelTask, Learner, placed
from gpu_workers.domains.spec import Embedded
from gpu_workers.packs import pack_paths

DIMENSION, TOPICS = 32, 4
NANO = 10**9


@pytest.fixture(scope="module")
def corpus() -> Embedded:
    """400 documents of 2 to 12 sentences around four topics. Sentences differ more than topics do."""
    source = np.random.default_rng(3)
    centres = source.normal(size=(TOPICS, DIMENSION))
    lengths = source.integers(2, 13, size=400)
    topics = source.integers(TOPICS, size=400)
    rows = np.repeat(centres[topics], lengths, axis=0) + 1.5 * source.normal(size=(lengths.sum(), DIMENSION))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Embedded(rows.astype(np.float32), lengths, [str(topic) for topic in topics])


def learned(
    corpus: Embedded, noise: CodeNoise, epsilon: float, *, size: int = 6, steps: int = 150
) -> tuple[codes.Geometry, np.ndarray, CodeTable]:
    tasks = [LabelTask(0, np.array([int(label) for label in corpus.labels]))]
    shape = codes.geometry([corpus], tasks)
    start = codes.codebook(placed(corpus.vectors, shape.space), size, 1)
    book, table = Learner([corpus], shape.space, shape.axes, 1).learn(
        start, tasks, noise, epsilon, steps=steps, on_update=lambda _: None
    )
    return shape, book, table


@pytest.fixture(scope="module")
def of_noise(corpus: Embedded) -> Callable[[CodeNoise], tuple[codes.Geometry, np.ndarray, CodeTable]]:
    """Learns once for each kind of noise."""
    return cache(lambda noise: learned(corpus, noise, 2.0))


def noisy_histograms(
    size: int, found: np.ndarray, lengths: np.ndarray, noise: CodeNoise, epsilon_nano: int = 2 * NANO
) -> np.ndarray:
    """The mechanism's histograms."""
    if noise is CodeNoise.COUNTS:
        return noisy_counts(size, found, lengths, epsilon_nano)
    return counts_of_codes(size, randomised_response(found, size=size, epsilon_nano=epsilon_nano), lengths)


@pytest.mark.parametrize("noise", cells(CodeNoise))
@pytest.mark.parametrize("has_network", cells([True, False]))
def test_a_release_is_nearer_to_the_document_than_the_corpus_mean_and_than_the_noisy_average(
    corpus: Embedded, of_noise: Any, noise: CodeNoise, has_network: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By squared error: the decoder is trained to be the posterior mean."""
    if not has_network:
        monkeypatch.setattr(learned_codes, "DECODED_CODES_MAX", 5)
    shape, book, table = of_noise(noise) if has_network else learned(corpus, noise, 2.0)
    found = CodeSpace(shape.space, {len(book): book}, torch.device("cpu")).nearest(
        torch.from_numpy(corpus.vectors), len(book)
    )
    noisy = noisy_histograms(len(book), found, corpus.lengths, noise)
    shares = noisy / corpus.lengths[:, None]
    assert bool(table.decoder) is has_network
    released = shares @ table.vectors + table.offset
    if has_network:
        released = released + HistogramDecoder(table.decoder).of_histograms(noisy, corpus.lengths)
    means = corpus.means()
    of_code = np.stack(
        [corpus.vectors[found == code].sum(axis=0) / max(1, (found == code).sum()) for code in range(len(book))]
    )

    def error(vectors: np.ndarray) -> float:
        return float(np.square(vectors - means).sum(axis=1).mean())

    assert error(released) < 0.95 * error(np.broadcast_to(means.mean(axis=0), means.shape))
    assert error(released) < error(shares @ of_code)


def test_equal_input_gives_equal_codes(corpus: Embedded) -> None:
    _, book, table = learned(corpus, CodeNoise.COUNTS, 2.0, steps=20)
    torch.rand(5)  # the caller's own generator does not matter
    _, again, same = learned(corpus, CodeNoise.COUNTS, 2.0, steps=20)
    assert np.array_equal(book, again)
    assert np.array_equal(table.vectors, same.vectors)


def test_labels_without_any_difference_change_nothing() -> None:
    rows = np.tile(np.random.default_rng(1).normal(size=(8, DIMENSION)), (40, 1))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    same = Embedded(rows.astype(np.float32), np.full(40, 8), [""] * 40)
    plain = codes.geometry([same])
    with_labels = codes.geometry([same], [LabelTask(0, np.arange(40) % 2)])
    assert np.isfinite(with_labels.axes).all()
    assert plain.space.rank == with_labels.space.rank


def test_a_label_that_is_missing_is_left_out(corpus: Embedded) -> None:
    some = replace(corpus, labels=["" if i % 2 else label for i, label in enumerate(corpus.labels)])
    (task,) = label_tasks([some], {0: (1.0,)})
    assert (task.classes[1::2] == -1).all()
    assert set(task.classes[::2]) == set(range(TOPICS))
    shape = codes.geometry([some], [task])
    start = codes.codebook(placed(some.vectors, shape.space), 6, 1)
    book, _ = Learner([some], shape.space, shape.axes, 1).learn(
        start, [task], CodeNoise.COUNTS, 2.0, steps=20, on_update=lambda _: None
    )
    assert book.shape == start.shape


@pytest.mark.parametrize("epsilon_nano", [1, NANO // 100, 4_000_000 * NANO])
@pytest.mark.parametrize("noise", cells(CodeNoise))
def test_a_release_is_finite_at_every_epsilon(of_noise: Any, noise: CodeNoise, epsilon_nano: int) -> None:
    """The row of the smallest epsilon serves all smaller ones, whose noise its decoder has never seen."""
    _, book, table = of_noise(noise)
    found = np.zeros(4_097, dtype=np.int64)
    lengths = np.array([1, 4_096])
    noisy = noisy_histograms(len(book), found, lengths, noise, epsilon_nano)
    assert np.isfinite(HistogramDecoder(table.decoder).of_histograms(noisy, lengths)).all()


def test_the_general_space_is_used_for_its_own_encoder_alone() -> None:
    general = DomainPack.load(pack_paths()["general"])
    found = known_space(general.info.encoder_fingerprint)
    assert np.array_equal(found.directions, general.space.directions)
    assert known_space("0" * 64) is None


def test_rows_have_the_codes_that_the_table_says(corpus: Embedded) -> None:
    """Rows of one size share a codebook, and a row has a table for short documents if it says so."""
    rows = {
        1.0: CodesRow(5, CodeNoise.COUNTS),
        2.0: CodesRow(6, CodeNoise.COUNTS, short=5),
        7.0: CodesRow(6, CodeNoise.RESPONSES),
    }
    shape = codes.geometry([corpus])
    books, tables = codes.learned_tables(shape, [corpus], [], 1, rows=rows, steps=2, on_update=lambda _: None)
    assert sorted(books) == [5, 6]
    for row, table in zip(rows.values(), tables.values(), strict=True):
        assert (table.size, table.noise) == (row.codes, row.noise)
        assert (table.short.size if table.short else 0) == row.short

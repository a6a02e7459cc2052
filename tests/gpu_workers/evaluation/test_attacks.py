"""What utility and attacks make of vectors with a known structure."""

from typing import Any

import numpy as np
import pytest

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import NANO
from gpu_workers.evaluation import membership
from gpu_workers.evaluation.corpus import Encoded, Source
from gpu_workers.evaluation.inversion import Attacker
from gpu_workers.evaluation.spec import EmbeddingMethod
from gpu_workers.evaluation.utility import Estimate, Labels, clusters, label_numbers, measure, nearest, scored

DICE = np.random.default_rng(7)


def groups(count: int, dimension: int = 16, noise: float = 0.1) -> tuple[Any, Labels]:
    """Vectors around two far points, and which of them."""
    labels = np.arange(count) % 2
    centres = np.eye(2, dimension)
    vectors = centres[labels] + noise * DICE.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels.astype(np.int64)


def test_vectors_as_they_are_keep_everything_and_noise_keeps_nothing() -> None:
    clean, labels = groups(200)
    assert scored(clean, clean, labels, seed=0) == (1, 1, 1, 1)
    noise = DICE.normal(size=clean.shape).astype(np.float32)
    accuracy, macro, recall, neighbour = scored(noise, clean, labels, seed=0)
    assert 0.25 < accuracy < 0.75
    assert 0.25 < macro < 0.75
    assert recall < 0.2
    assert 0.25 < neighbour < 0.75


def test_the_nearest_rows_have_the_largest_cosines_without_the_row_itself() -> None:
    vectors = np.array([[1, 0], [2, 0.1], [0, 1], [-1, 0]], dtype=np.float32)
    assert nearest(vectors, np.array([0, 2]), 2).tolist() == [[1, 2], [1, 0]]


def test_clusters_stand_for_labels_and_labels_are_numbered() -> None:
    clean, labels = groups(120)
    found = clusters(clean)
    assert len({*zip(found.tolist(), labels.tolist(), strict=True)}) == 2
    assert label_numbers(["b", "a", "b"]).tolist() == [1, 0, 1]


def test_an_interval_is_that_of_student() -> None:
    found = Estimate.of([1.0, 2.0, 3.0])
    assert (found.mean, found.high - found.mean) == (2, pytest.approx(4.302653 / np.sqrt(3)))


class Mechanisms(Encoded):
    """Draws Gaussian noise in place of a mechanism: a releaser is its standard deviation."""

    def __init__(self, vectors: Any) -> None:
        self._vectors = vectors

    def source(self, method: Any, shown: Any) -> Source:
        return Source(tuple(self._vectors[:, None, :]))

    def drawn(self, releaser: Any, vectors: Any) -> Any:
        rows = np.concatenate(list(vectors))
        return (rows + releaser * DICE.normal(size=rows.shape)).astype(np.float32)


def method(*deviations: float) -> EmbeddingMethod:
    event = PrivacyEvent("x", "pure", Unit.SENTENCE, Adjacency.REPLACE_ONE, Guarantee.PURE_DP, 2 * NANO)
    return EmbeddingMethod("x", "embed/vector", {}, deviations, (event,) * len(deviations))  # type: ignore[arg-type]


def test_the_smallest_epsilon_is_the_one_from_which_on_little_is_lost() -> None:
    clean, labels = groups(200)
    encoded = Mechanisms(clean)
    shares: list[float] = []
    (found,) = measure(
        encoded, [method(3.0, 0.05, 3.0, 0.05, 0.0)], labels, epsilons=[1, 2, 3, 6, 10], repetitions=3, tolerance=0.1,
        shown=shares.append,
    )  # fmt: skip
    assert [row.epsilon for row in found.rows] == [None, 1, 2, 3, 6, 10]
    assert (found.smallest_accuracy, found.smallest_recall) == (6, 10)
    assert (shares[-1], len(shares)) == (1, 18)
    assert found.rows[0].recall == Estimate(1, 1, 1)


def test_the_canaries_are_the_two_units_with_the_smallest_cosine() -> None:
    units = np.array([[1, 0, 0], [0, 1, 0], [-1, 0.1, 0]], dtype=np.float32)
    first, second = membership.canaries(Source((units[:1], units[1:])))
    assert [first.tolist(), second.tolist()] == [units[:1].tolist(), units[2:].tolist()]


class Responses(Mechanisms):
    """Randomised response of the sign of the first coordinate: a releaser is its true epsilon."""

    def drawn(self, releaser: Any, vectors: Any) -> Any:
        kept = DICE.random(len(vectors)) < 1 / (1 + np.exp(-releaser))
        return (np.where(kept, 1, -1)[:, None] * np.sign(np.concatenate(list(vectors))[:, :1])).astype(np.float32)


PAIR = (np.array([[1, 0]], dtype=np.float32), np.array([[-1, 0]], dtype=np.float32))


@pytest.mark.parametrize(
    ("true", "low", "high", "holds"), [(2.0, 1.6, 2.0, True), (4.0, 2.5, 4.0, False), (0.0, 0.0, 0.0, True)]
)
def test_epsilon_is_found_near_the_true_one_and_never_above(true: float, low: float, high: float, holds: bool) -> None:
    found = membership.attack(
        Responses(PAIR[0]), method(true), 0, PAIR, bound=np.tanh(1), confidence=1 - 1e-6, draws=4_000
    )
    assert low <= found.found <= high
    assert (found.claim, found.holds) == (2, holds)
    assert found.advantage == pytest.approx(np.tanh(true / 2), abs=0.06)
    assert found.advantage_low <= np.tanh(true / 2)


TOPICS = np.arange(200) % 2
WORDS = [f"{first}{second}" for first in "abcdefgh" for second in "stuvwxyz"]


def written() -> tuple[list[str], Any]:
    """Each text has a beginning that all have, and four of 64 words, which its vector shows."""
    chosen = [np.random.default_rng(row).choice(64, size=4, replace=False) for row in range(200)]
    vectors = np.zeros((200, 64), dtype=np.float32)
    for row, own in enumerate(chosen):
        vectors[row, own] = 1
    return ["The same beginning: " + " ".join(WORDS[place] for place in own) for own in chosen], vectors


def test_words_are_read_from_vectors_that_show_them_and_not_from_noise() -> None:
    texts, vectors = written()
    attacker = Attacker(texts, TOPICS, seed=0)
    clear = attacker.attack("clear", None, vectors, vectors)
    assert clear.words.mean > 0.9
    assert clear.topic.mean < 0.3, "words that all texts have count for nothing"
    assert clear.words_beyond.low > 0.5
    assert clear.words_beyond.mean == pytest.approx(clear.words.mean - clear.topic.mean)
    noise = DICE.normal(size=vectors.shape).astype(np.float32)
    hidden = attacker.attack("noise", 1, noise, vectors)
    assert abs(hidden.words_beyond.mean) < 0.1
    assert hidden.neighbour_beyond.mean < 0.1


def test_the_nearest_text_is_found_after_an_unknown_rotation() -> None:
    """The attacked texts occur among those of the attacker."""
    texts, vectors = written()
    order = np.random.default_rng(0).permutation(200)
    twins = np.empty(200, dtype=int)
    twins[order[100:]] = twins[order[:100]] = order[:100]
    turned = np.linalg.qr(np.random.default_rng(5).normal(size=(64, 64)))[0].astype(np.float32)
    attacker = Attacker([texts[row] for row in twins], TOPICS[twins], seed=0)
    assert attacker.attack("turned", None, vectors[twins] @ turned, vectors[twins]).neighbour.mean > 0.9


@pytest.mark.parametrize("text", ["the same words", "12 34"])
def test_texts_of_common_words_or_of_none_are_attacked_too(text: str) -> None:
    vectors = DICE.normal(size=(40, 8)).astype(np.float32)
    found = Attacker([text] * 40, TOPICS[:40], seed=0).attack("x", 1, vectors, vectors)
    assert found.words_beyond.mean == pytest.approx(0, abs=1e-9)

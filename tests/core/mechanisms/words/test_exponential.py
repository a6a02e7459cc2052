"""Words by the exponential mechanism: the law that is sampled, and the metric ratio by brute force."""

import itertools
import random
from collections import Counter
from decimal import Decimal, getcontext

import numpy as np
import pytest
from law_kit import follows

from core.mechanisms.words import pricing, replacement
from core.mechanisms.words.replacement import ExponentialWords, WordVectors, select, shipped

NANO = 10**9
RUNS = 20_000
UNKNOWN = "zworykin"
# some near, some far, two of equal distance from the origin, and two of one code
PLAIN = {"a": (5, 0), "b": (4, 1), "c": (-5, 0), "d": (-3, -4), "e": (0, 1), "f": (2, 2), "g": (0, 1)}


def vocabulary_of(codes: dict[str, tuple[int, ...]]) -> WordVectors:
    return WordVectors(tuple(codes), np.array(list(codes.values()), dtype=np.int8))


def draws(mechanism: ExponentialWords, word: str, epsilon: float, runs: int = RUNS) -> Counter[str]:
    return Counter(mechanism.release([word] * runs, [round(epsilon * NANO)] * runs))


def distance(one: np.ndarray, other: np.ndarray, scale: int) -> Decimal:
    return Decimal(int(((one.astype(int) - other.astype(int)) ** 2).sum())).sqrt() / scale


def law(vocabulary: WordVectors, code: np.ndarray, epsilon: Decimal) -> list[Decimal]:
    """The probabilities as the docstring has them, to 60 digits."""
    getcontext().prec = 60
    weights = [(-epsilon * distance(code, own, vocabulary.scale) / 2).exp() for own in vocabulary.codes]
    return [weight / sum(weights) for weight in weights]


def fits(counted: Counter[str], vocabulary: WordVectors, expected: list[Decimal]) -> bool:
    return follows(np.array([counted[word] for word in vocabulary.words]), np.array([float(p) for p in expected]))


def test_words_come_out_as_often_as_the_law_says() -> None:
    for epsilon in [0.001, 1.0, 8.0]:
        for word in ["a", "f", "a-f", UNKNOWN]:
            vocabulary = vocabulary_of(PLAIN)
            expected = law(vocabulary, vocabulary.rows([word])[0], Decimal(str(epsilon)))
            assert fits(draws(ExponentialWords(vocabulary), word, epsilon), vocabulary, expected)


def test_the_shipped_words_come_out_as_often_as_the_law_says() -> None:
    vocabulary = shipped()
    row = vocabulary.rows(["good"])[0]
    distances = np.linalg.norm(vocabulary.codes.astype(float) - row.astype(float), axis=1) / vocabulary.scale
    weights = np.exp(-14 * distances / 2)
    order = np.argsort(-weights)
    bins = np.empty(len(order), dtype=int)
    bins[order] = np.searchsorted([1, 3, 10, 100, 1000], np.arange(len(order)), side="right")
    places = {word: index for index, word in enumerate(vocabulary.words)}
    drawn = [places[word] for word in draws(ExponentialWords(vocabulary), "good", 14.0).elements()]
    expected = np.bincount(bins, weights=weights) / weights.sum()
    assert follows(np.bincount(bins[drawn], minlength=len(expected)), expected)


@pytest.mark.slow("statistics")
def test_the_exact_path_has_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacement, "_relative_error", lambda count, epsilon: 2.0)  # nothing is ever decided by it
    vocabulary = vocabulary_of(PLAIN)
    expected = law(vocabulary, vocabulary.rows(["f"])[0], Decimal(3))
    assert fits(draws(ExponentialWords(vocabulary), "f", 3.0, 5_000), vocabulary, expected)


@pytest.mark.parametrize(
    "epsilon", [20.0, *(pytest.param(value, marks=pytest.mark.slow("grid")) for value in (0.5, 1000.0, 2e6))]
)
def test_floats_decide_as_all_digits_would(monkeypatch: pytest.MonkeyPatch, epsilon: float) -> None:
    vocabulary = vocabulary_of({f"w{i}": tuple(code) for i, code in enumerate(shipped().codes[:40].tolist())})
    squares = vocabulary.squared_distances(vocabulary.rows(["w7"]))[0]

    def drawn(seed: int) -> list[int]:
        monkeypatch.setattr("os.urandom", random.Random(seed).randbytes)
        return select(squares, epsilon_nano=round(epsilon * NANO), scale=vocabulary.scale, count=300).tolist()

    fast = drawn(1)
    monkeypatch.setattr(replacement, "_relative_error", lambda count, epsilon: 2.0)
    assert drawn(1) == fast
    assert drawn(2) != fast or epsilon > 100


def test_weights_of_the_exact_path_are_off_by_less_than_two() -> None:
    getcontext().prec = 120
    vocabulary = shipped()
    squares = vocabulary.squared_distances(vocabulary.rows(["tuesday"]))[0, :200]
    for epsilon_nano in (1, 3 * NANO, 2_000_000 * NANO):
        sums = replacement._integer_sums(squares, epsilon_nano=epsilon_nano, scale=vocabulary.scale, bits=192)
        least, rate = Decimal(int(squares.min())).sqrt(), Decimal(epsilon_nano) / (2 * NANO * vocabulary.scale)
        for square, weight in zip(squares.tolist(), np.diff([0, *sums]), strict=True):
            exact = (rate * (least - Decimal(int(square)).sqrt())).exp() * (1 << 192)
            assert abs(exact - Decimal(int(weight))) < 2


def test_no_pair_of_inputs_and_no_output_breaks_the_metric_bound() -> None:
    for epsilon in [Decimal("0.5"), Decimal(3), Decimal(40)]:
        vocabulary = vocabulary_of(PLAIN)
        inputs = [np.array(code, dtype=np.int8) for code in itertools.product(range(-3, 4), repeat=2)]
        inputs += list(vocabulary.codes)
        laws = [law(vocabulary, code, epsilon) for code in inputs]
        worst = Decimal(0)
        for one, other in itertools.permutations(range(len(inputs)), 2):
            bound = (epsilon * distance(inputs[one], inputs[other], vocabulary.scale)).exp()
            for p, q in zip(laws[one], laws[other], strict=True):
                assert p <= q * bound * (1 + Decimal("1e-50"))
                worst = max(worst, p / q)
        assert worst.ln() * NANO <= pricing.worst_case_nano(int(epsilon * NANO), mechanism="exponential")


def test_a_word_has_the_same_law_alone_and_in_company(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bytes, int]] = []

    def spy(squares, *, epsilon_nano, scale, count):
        seen.append((squares.tobytes(), epsilon_nano))
        return np.zeros(count, dtype=np.int64)

    monkeypatch.setattr(replacement, "select", spy)
    mechanism = ExponentialWords(shipped())
    words = [*shipped().words[:150], "twenty-one", UNKNOWN]
    mechanism.release(words, [NANO] * len(words))
    together = list(seen)
    seen.clear()
    for word in words:
        mechanism.release([word], [NANO])

    assert together == seen


def test_huge_and_tiny_epsilons_work_on_the_shipped_words() -> None:
    mechanism = ExponentialWords(shipped())
    words = ["good", "Tuesday", UNKNOWN]
    for epsilon in (1000, 2_000_000):
        assert mechanism.release(words, [epsilon * NANO] * 3)[:2] == ["good", "tuesday"]
    drawn = mechanism.release(["good"] * 2_000, [NANO // 1000] * 2_000)
    assert len(set(drawn)) > 1_800, "nearly uniform: two thousand of twenty thousand"
    assert mechanism.release([], []) == []


def test_each_word_needs_an_epsilon() -> None:
    for epsilons in [[NANO], [NANO, 0]]:
        with pytest.raises(ValueError, match="epsilon"):
            ExponentialWords(vocabulary_of(PLAIN)).release(["a", "b"], epsilons)

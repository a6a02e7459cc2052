"""Distributions, exactness and independence of the samplers.

Every statistical test has a fixed size and a false-alarm rate of 1e-6.
"""

import itertools
import math
import multiprocessing
import os
from decimal import Context, Decimal

import numpy as np
import pytest
from law_kit import follows
from scipy import stats

from core.mechanisms.samplers import exact
from core.mechanisms.samplers.exact import (
    bernoulli_exp,
    exponential_mechanism,
    permute_and_flip,
    uniform_below,
    uniform_indices,
)

FALSE_ALARM = 1e-6
RUNS = 10_000
NANO = 10**9
PRECISE = Context(prec=60)


def exp_exact(x: float) -> Decimal:
    return PRECISE.exp(-Decimal(x))


def test_coins_have_bias_exp() -> None:
    for x in [0.001, 0.3, 1.0, 4.0, 9.0]:
        heads = int(bernoulli_exp(np.full(50_000, round(x * NANO)), NANO).sum())
        assert stats.binomtest(heads, 50_000, math.exp(-x)).pvalue > FALSE_ALARM
    assert bernoulli_exp(np.zeros(100_000, dtype=np.int64), 7).all(), "a coin of bias 1 never fails"


def test_uniform_integers() -> None:
    for bound in [1, 2, 3, 10, 1000]:
        counts = np.bincount(uniform_indices(60_000, bound), minlength=bound)
        assert len(counts) == bound
        assert bound == 1 or follows(counts, np.full(bound, 1 / bound))
        single = np.bincount([uniform_below(bound) for _ in range(60_000)], minlength=bound)
        assert len(single) == bound
        assert bound == 1 or follows(single, np.full(bound, 1 / bound))


def permute_and_flip_law(scores: list[int], epsilon: float, sensitivity: int) -> np.ndarray:
    """By its definition: over all permutations, the first whose coin falls on heads."""
    bias = [math.exp(epsilon * (u - max(scores)) / (2 * sensitivity)) for u in scores]
    law = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        reached = 1.0
        for i in order:
            law[i] += reached * bias[i]
            reached *= 1 - bias[i]
    return law / math.factorial(len(scores))


EPSILONS = [2.0, *(pytest.param(epsilon, marks=pytest.mark.slow("statistics")) for epsilon in (0.5, 6.0))]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_permute_and_flip_follows_its_definition(epsilon: float) -> None:
    scores = [3, 0, 3, 2, -4]
    drawn = [permute_and_flip(np.array(scores), epsilon_nano=round(epsilon * NANO), sensitivity=2) for _ in range(RUNS)]
    assert follows(np.bincount(drawn, minlength=5), permute_and_flip_law(scores, epsilon, 2))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exponential_mechanism_follows_its_weights(epsilon: float) -> None:
    scores = np.array([3, 0, 3, 2, -4])
    weights = np.exp(epsilon * scores / 4)
    drawn = [exponential_mechanism(scores, epsilon_nano=round(epsilon * NANO), sensitivity=2) for _ in range(RUNS)]
    assert follows(np.bincount(drawn, minlength=5), weights / weights.sum())


def test_the_enclosure_holds() -> None:
    """exp(-x) lies inside the float interval that decides a coin, with a wide margin."""
    source = np.random.default_rng(1)
    xs = np.concatenate([source.uniform(0, 50, 1500), source.uniform(0, 699.99, 1500), [1e-300, 1e-17, 699.9]])
    for x, value in zip(xs.tolist(), np.exp(-xs).tolist(), strict=True):
        error = abs(Decimal(value) / exp_exact(x) - 1)
        assert error < Decimal(exact._RELATIVE_ERROR) / 1000


def test_fast_decisions_agree_with_the_exact_coin() -> None:
    """Around the boundary, every coin that the interval decides falls as the exact one does."""
    source = np.random.default_rng(2)
    decided = 0
    for numerator in [*source.integers(1, 25 * NANO, 300).tolist(), 1, 800 * NANO]:
        boundary = int(exp_exact(numerator / NANO) * 2**32)
        for word in range(max(0, boundary - 2), min(2**32 - 1, boundary + 2) + 1):
            words = np.array([word], dtype=np.uint32)
            accepted, undecided = exact._decide(words, np.array([numerator / NANO]))
            if not undecided[0]:
                decided += 1
                assert exact._exact_coin(word, numerator, NANO) == accepted[0]
    assert decided > 1000


def test_the_exact_coin_extends_the_same_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    """With U = 0.w0000... and U = 0.wffff... the coin compares U itself with exp(-x)."""
    x = round(20.5 * NANO)
    word = int(exp_exact(20.5) * 2**32)
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * count)
    assert exact._exact_coin(word, x, NANO)
    monkeypatch.setattr(os, "urandom", lambda count: b"\xff" * count)
    assert not exact._exact_coin(word, x, NANO)


def test_no_outcome_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """At epsilon 100 a candidate far below the best (bias e^-500) is still drawn when U is small enough.

    A float32 softmax gives such candidates probability 0, and their absence tells the input.
    """
    scores = np.array([0, 10, 0])
    monkeypatch.setattr(exact, "random_words", lambda count: np.zeros(count, dtype=np.uint32))
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * count)
    assert permute_and_flip(scores, epsilon_nano=100 * NANO, sensitivity=1) == 0
    assert exponential_mechanism(scores, epsilon_nano=100 * NANO, sensitivity=1) == 0
    assert exact._exact_coin(0, 300_000, 100)
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * (count - 1) + b"\1")
    heads = exact._coins(np.array([10, 0, 10]), 100 * NANO, 2 * NANO)
    assert heads.tolist() == [False, True, False]


def test_the_largest_amounts_do_not_overflow() -> None:
    for draw in [permute_and_flip, exponential_mechanism]:
        scores = np.array([-(2**51), 2**51, 0])
        for sensitivity in (1, 2**40):
            assert draw(scores, epsilon_nano=4_000_000 * NANO, sensitivity=sensitivity) == 1


def test_bad_arguments_are_refused() -> None:
    for draw in [permute_and_flip, exponential_mechanism]:
        for scores, epsilon_nano, sensitivity in [
            (np.array([], dtype=np.int64), NANO, 1), (np.array([0.5]), NANO, 1), (np.array([[1]]), NANO, 1),
            (np.array([1]), 0, 1), (np.array([1]), NANO, 0), (np.array([2**53]), NANO, 1),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match="must"):
                draw(scores, epsilon_nano=epsilon_nano, sensitivity=sensitivity)


def test_bad_coins_and_bounds_are_refused() -> None:
    for numerators, denominator in (([-1], 1), ([2**53], 1), ([1], 0)):
        with pytest.raises(ValueError, match="must"):
            bernoulli_exp(np.array(numerators), denominator)
    for bound in (0, 2**32 + 1):
        with pytest.raises(ValueError, match="bound"):
            uniform_indices(1, bound)
    with pytest.raises(ValueError, match="bound"):
        uniform_below(0)


def _stream(queue: "multiprocessing.Queue[bytes]") -> None:
    queue.put(exact.random_words(64).tobytes())


@pytest.mark.usefixtures("processes")
def test_forked_processes_never_share_a_stream() -> None:
    exact.random_words(64)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_stream, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    streams = [queue.get(timeout=300) for _ in children] + [exact.random_words(64).tobytes()]
    for child in children:
        child.join()
    words = np.concatenate([np.frombuffer(stream, dtype=np.uint32) for stream in streams])
    # 192 words: a repeated one has probability 4e-6, and a shared stream repeats 64.
    assert len(np.unique(words)) > 180


@pytest.mark.parametrize(("offset", "heads"), [(-1, True), (1, False)])
def test_the_exact_coin_is_right_to_160_bits(offset: int, heads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A uniform that leaves exp(-x) at its 160th bit, far beyond the 28 digits of Python's default context."""
    numerator, denominator = 7_000_000_001, 3_000_000_007
    context = Context(prec=200)
    bias = context.exp(context.divide(Decimal(numerator), Decimal(denominator)).copy_negate())
    uniform = (int(context.multiply(bias, Decimal(1 << 160))) + offset) << 96
    left = 224

    def urandom(size: int) -> bytes:
        nonlocal left
        left -= 8 * size
        return ((uniform >> left) & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    monkeypatch.setattr(exact.os, "urandom", urandom)
    assert exact._exact_coin(uniform >> 224, numerator, denominator) is heads

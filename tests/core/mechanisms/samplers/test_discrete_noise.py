"""Distribution tests of randomised response, subset selection and two-sided geometric noise.

Each chi-square test raises a false alarm with probability 1e-6.
"""

import math
import os
from decimal import Decimal, localcontext

import numpy as np
import pytest
from law_kit import follows
from tiers import cells

from core.mechanisms.samplers import discrete_noise, exact
from core.mechanisms.samplers.discrete_noise import randomised_response, subset_selection, two_sided_geometric

NANO = 10**9
RUNS = 50_000


def response_law(code: int, size: int, epsilon: float) -> np.ndarray:
    law = np.ones(size)
    law[code] = math.exp(epsilon)
    return law


def subset_law(members: list[int], size: int, epsilon: float) -> np.ndarray:
    """By the definition: with its probability a uniform member, else a uniform other."""
    n = len(members)
    inside = n * math.exp(epsilon) / (n * math.exp(epsilon) + size - n)
    law = np.full(size, (1 - inside) / (size - n))
    law[members] = inside / n
    return law


def geometric_law(reach: int, epsilon: float, sensitivity: int) -> np.ndarray:
    """On -reach..reach, everything beyond counted at the ends."""
    q = math.exp(-epsilon / sensitivity)
    law = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1)).astype(float)
    law[0] /= 1 - q
    law[-1] /= 1 - q
    return law


@pytest.fixture
def short_words(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """First words of 8 bits: one draw in 256 is extended. Gives the list of words that were."""
    extended: list[int] = []
    exact = discrete_noise._exactly_inside

    def spy(word: int, size: int, members: int, epsilon_nano: int) -> bool:
        extended.append(word)
        return exact(word, size, members, epsilon_nano)

    monkeypatch.setattr(discrete_noise, "_WORD", np.uint8)
    monkeypatch.setattr(discrete_noise, "_WORD_BITS", 8)
    monkeypatch.setattr(discrete_noise, "_exactly_inside", spy)
    return extended


def test_randomised_response_follows_its_law() -> None:
    for size, code, epsilon in [(2, 0, 0.5), (2, 1, 3.0), (7, 3, 1.0), (50, 49, 4.0)]:
        drawn = randomised_response(np.full(RUNS, code), size=size, epsilon_nano=round(epsilon * NANO))
        assert drawn.dtype == np.int64
        assert follows(np.bincount(drawn, minlength=size), response_law(code, size, epsilon))


SUBSETS = [
    ([0], 2, 1.0), ([4], 9, 2.0), ([0, 1, 2], 9, 0.5), ([7, 0, 3], 9, 2.0), ([5, 6, 7, 8], 9, 2.0),
    ([8, 6, 5, 4, 3, 2, 1, 0], 9, 1.0), (list(range(0, 60, 7)), 60, 4.0),
]  # fmt: skip


def test_subset_selection_follows_its_law() -> None:
    for members, size, epsilon in SUBSETS:
        drawn = subset_selection(np.tile(members, (RUNS, 1)), size=size, epsilon_nano=round(epsilon * NANO))
        assert drawn.dtype == np.int64
        assert follows(np.bincount(drawn, minlength=size), subset_law(members, size, epsilon))


def test_each_row_has_its_own_subset() -> None:
    """Mixed rows in one call: each follows its own law, and the two of a pair are independent."""
    rows = np.tile([[0, 1], [3, 4]], (RUNS, 1))
    drawn = subset_selection(rows, size=5, epsilon_nano=NANO).reshape(-1, 2)
    pairs = np.bincount(drawn[:, 0] * 5 + drawn[:, 1], minlength=25)
    assert follows(pairs, np.outer(subset_law([0, 1], 5, 1.0), subset_law([3, 4], 5, 1.0)).ravel())


@pytest.mark.parametrize(("members", "runs"), cells([([4], 400_000), ([4, 1], 4_000_000)], kind="statistics"))
def test_the_exact_extension_follows_the_same_law(members: list[int], runs: int, short_words: list[int]) -> None:
    """256 times the probability of a member is far from an integer: what the extension decides shows in the law."""
    epsilon, size = 0.7, 6
    inside = 256 * subset_law(members, size, epsilon)[members].sum()
    assert 0.2 < inside % 1 < 0.8
    drawn = subset_selection(np.tile(members, (runs, 1)), size=size, epsilon_nano=round(epsilon * NANO))
    assert follows(np.bincount(drawn, minlength=size), subset_law(members, size, epsilon))
    assert set(short_words) == {int(inside)}
    assert abs(len(short_words) - runs / 256) < 6 * math.sqrt(runs / 256)


def test_thresholds_are_the_probability_to_the_last_bit() -> None:
    for bits in [64, 128, 2048]:
        for size, members, epsilon in [
            (2, 1, "1"), (100, 1, "2.5"), (4096, 463, "3"), (1 << 32, 1, "22.180709778"),
            (1 << 32, (1 << 32) - 1, "0.001"), (9, 4, "40"),
        ]:  # fmt: skip
            with localcontext() as context:
                context.prec = 1_500
                falling = (-Decimal(epsilon)).exp()
                expected = int(Decimal(2) ** bits * members / (members + (size - members) * falling))
            assert discrete_noise._member_threshold(size, members, int(Decimal(epsilon) * NANO), bits) == expected


@pytest.mark.parametrize(("offset", "inside"), [(-1, True), (0, None), (1, False)])
def test_the_extension_is_right_to_the_last_bit(
    offset: int, inside: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U is set to the probability's own first 512 bits, or to one unit of the last of them below or above."""
    digits = discrete_noise._member_threshold(4096, 51, 6 * NANO, 512) + offset
    stream = (digits & ((1 << 448) - 1)).to_bytes(56, "big")
    taken = 0

    def urandom(count: int) -> bytes:
        nonlocal taken
        taken += count
        # the source is read least significant byte first within each request; beyond 512 bits it gives zeros
        return stream[taken - count : taken][::-1].rjust(count, b"\0") if taken <= 56 else b"\0" * count

    monkeypatch.setattr(os, "urandom", urandom)
    answer = discrete_noise._exactly_inside(digits >> 448, 4096, 51, 6 * NANO)
    assert answer is (True if inside is None else inside)  # zeros below an irrational number stay below it
    assert taken == (56 if inside is not None else 120)


def test_a_degenerate_source_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that repeats the probability's own digits for ever ends in an error, not in an answer."""
    monkeypatch.setattr(discrete_noise, "_EXACT_BITS_MAX", 256)
    digits = discrete_noise._member_threshold(9, 2, NANO, 256)
    parts = {8: (digits >> 128) & ((1 << 64) - 1), 16: digits & ((1 << 128) - 1)}
    monkeypatch.setattr(os, "urandom", lambda count: parts[count].to_bytes(count, "little"))
    with pytest.raises(RuntimeError, match="degenerate"):
        discrete_noise._exactly_inside(digits >> 192, 9, 2, NANO)


def test_members_and_others_are_all_reachable() -> None:
    """At the ends of both uniform draws, inside and outside, the code is the one expected."""
    subset = np.array([[1, 4, 5]])
    others = [0, 2, 3, 6, 7]

    def drawn(word: int, draw: int) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "urandom", lambda count: word.to_bytes(8, "little"))
            patch.setattr(discrete_noise, "uniform_indices", lambda count, bound: np.array([min(draw, bound - 1)]))
            return int(subset_selection(subset, size=8, epsilon_nano=NANO)[0])

    assert [drawn(0, i) for i in range(3)] == [1, 4, 5]
    assert [drawn((1 << 64) - 1, i) for i in range(5)] == others


def test_the_callers_arrays_are_not_changed() -> None:
    subsets, codes = np.array([[5, 1], [2, 0]]), np.array([1, 0, 2])
    subset_selection(subsets, size=6, epsilon_nano=NANO)
    randomised_response(codes, size=3, epsilon_nano=NANO)
    assert subsets.tolist() == [[5, 1], [2, 0]]
    assert codes.tolist() == [1, 0, 2]


def test_no_rows_give_no_codes() -> None:
    assert len(subset_selection(np.zeros((0, 3), dtype=np.int64), size=6, epsilon_nano=NANO)) == 0
    assert len(randomised_response(np.zeros(0, dtype=np.int64), size=6, epsilon_nano=NANO)) == 0
    assert len(two_sided_geometric(0, epsilon_nano=NANO, sensitivity=1)) == 0


def test_bad_subsets_are_refused() -> None:
    for subset, size, epsilon_nano in [
        ([3], 3, NANO), ([-1], 3, NANO), ([0], 1, NANO), ([0], (1 << 32) + 1, NANO), ([0], 3, 0),
        ([0, 1, 2], 3, NANO), ([], 3, NANO), ([1, 1], 3, NANO), ([2, 0, 2], 9, NANO),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=r"must|outside|twice"):
            subset_selection(np.array([subset], dtype=np.int64), size=size, epsilon_nano=epsilon_nano)
        if len(subset) == 1:
            with pytest.raises(ValueError, match=r"must|outside"):
                randomised_response(np.array(subset), size=size, epsilon_nano=epsilon_nano)


def test_two_sided_geometric_follows_its_law() -> None:
    for epsilon, sensitivity in [(0.1, 1), (1.0, 1), (1.0, 2), (2.5, 4), (3.0, 1), (12.0, 2)]:
        drawn = two_sided_geometric(RUNS, epsilon_nano=round(epsilon * NANO), sensitivity=sensitivity)
        reach = max(2, int(6 * sensitivity / epsilon))
        counts = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)
        assert drawn.dtype == np.int64
        assert follows(counts, geometric_law(reach, epsilon, sensitivity))


def test_neighbouring_draws_of_the_noise_are_independent() -> None:
    drawn = np.clip(two_sided_geometric(2 * RUNS, epsilon_nano=2 * NANO, sensitivity=1), -2, 2) + 2
    first, second = drawn[::2], drawn[1::2]
    law = geometric_law(2, 2.0, 1)
    assert follows(np.bincount(first * 5 + second, minlength=25), np.outer(law, law).ravel())


def test_the_noise_follows_its_law_where_every_coin_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """An enclosure of no use sends every coin to the exact extension."""

    def undecided(words: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(words), dtype=bool), np.ones(len(words), dtype=bool)

    monkeypatch.setattr(exact, "_decide", undecided)
    drawn = two_sided_geometric(3_000, epsilon_nano=NANO, sensitivity=2)
    assert follows(np.bincount(np.clip(drawn, -8, 8) + 8, minlength=17), geometric_law(8, 1.0, 2))


def test_bad_noise_is_refused() -> None:
    for epsilon_nano, sensitivity in [(0, 1), (-1, 1), (NANO, 0), (NANO, 5)]:
        with pytest.raises(ValueError, match="must"):
            two_sided_geometric(3, epsilon_nano=epsilon_nano, sensitivity=sensitivity)


def test_two_calls_never_draw_the_same() -> None:
    for draw in [
        lambda: randomised_response(np.zeros(50, dtype=np.int64), size=1000, epsilon_nano=1),
        lambda: two_sided_geometric(50, epsilon_nano=NANO, sensitivity=1),
    ]:
        assert not np.array_equal(draw(), draw())

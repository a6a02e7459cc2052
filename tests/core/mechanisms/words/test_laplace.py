"""Word-level metric DP: what both mechanisms promise, and the law of the one by noise."""

from collections import Counter

import mpmath
import numpy as np
import pytest
from scipy import stats

from core.accounting.events import Adjacency, Guarantee, Unit
from core.errors import InvalidInput
from core.mechanisms.vectors import metric
from core.mechanisms.words.pricing import WORDS_MAX, word_events, worst_case_nano
from core.mechanisms.words.replacement import (
    NOISE_DIMENSION,
    ExponentialWords,
    LaplaceWords,
    WordMechanism,
    WordVectors,
    load,
    save,
    shipped,
)

NANO = 10**9
RUNS = 20_000
FALSE_ALARM = 1e-6
# on a line, the far ends 2 apart, each with a word beside it: what is nearest to an end is nearly all beyond it
LINE = {"left": -1.0, "lefter": -0.98, "righter": 0.98, "right": 1.0}
UNKNOWN = "zworykin"


def on_a_line(places: dict[str, float] = LINE) -> WordVectors:
    codes = np.array([[round(100 * place)] for place in places.values()], dtype=np.int8)
    return WordVectors(tuple(places), codes)


@pytest.fixture(params=[ExponentialWords, LaplaceWords])
def mechanism(request: pytest.FixtureRequest) -> WordMechanism:
    return request.param(on_a_line())


def draws(mechanism: WordMechanism, word: str, epsilon: float, runs: int = RUNS) -> Counter[str]:
    return Counter(mechanism.release([word] * runs, [round(epsilon * NANO)] * runs))


def test_a_word_stays_as_often_as_the_noise_says() -> None:
    for epsilon in [0.5, 2.0]:
        ends = LaplaceWords(on_a_line({"left": -1.0, "right": 1.0}))
        stays = draws(ends, "right", epsilon)["right"]
        expected = 1 - np.exp(-epsilon) / 2  # Laplace noise of scale 1/eps that does not pass the middle, 1 away
        assert stats.binomtest(stays, RUNS, expected).pvalue > FALSE_ALARM


def test_every_word_can_come_out_whatever_went_in(mechanism: WordMechanism) -> None:
    for word in (*LINE, UNKNOWN, "4711", ""):
        assert set(draws(mechanism, word, 1.0, 20_000)) == set(LINE)


def test_a_word_outside_the_vocabulary_is_the_origin_or_the_mean_of_its_known_parts(mechanism: WordMechanism) -> None:
    rows = on_a_line().rows([UNKNOWN, "", "3.14", "left-right", "Right", "RIGHT’s", "lefter-zworykin"])
    assert rows[:, 0].tolist() == [0, 0, 0, 0, 100, 100, -98]
    halves = draws(mechanism, UNKNOWN, 1.0)
    assert stats.binomtest(halves["left"] + halves["lefter"], RUNS, 0.5).pvalue > FALSE_ALARM


def test_by_noise_no_two_words_are_further_apart_than_their_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise is wider than epsilon asks by 2^-28: rounding may not move words apart by more than that."""
    vocabulary = shipped().leading(NOISE_DIMENSION)
    points: list[np.ndarray] = []
    monkeypatch.setattr(metric, "add_l2_laplace", lambda values, **_: points.append(values.copy()))
    words = vocabulary.words[:400]
    LaplaceWords(vocabulary).release(words, [NANO] * len(words))
    (computed,) = points
    codes = vocabulary.rows(words).astype(np.int64)

    for one, other in zip(range(0, 400, 2), range(1, 400, 2), strict=True):
        with mpmath.workdps(40):
            squares = mpmath.mpf(int(((codes[one] - codes[other]) ** 2).sum()))
            truth = mpmath.sqrt(squares) / vocabulary.scale
            moved = mpmath.sqrt(sum((mpmath.mpf(a) - mpmath.mpf(b)) ** 2 for a, b in computed[[one, other]].T.tolist()))
            assert moved <= truth * (1 + mpmath.mpf(2) ** -28)


def test_draws_of_one_call_are_independent_of_each_other(mechanism: WordMechanism) -> None:
    drawn = mechanism.release(["right"] * RUNS, [NANO] * RUNS)
    table = np.zeros((len(LINE), len(LINE)))
    places = {word: index for index, word in enumerate(LINE)}
    for one, other in zip(drawn[::2], drawn[1::2], strict=True):
        table[places[one], places[other]] += 1
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


def test_each_word_is_drawn_at_its_own_epsilon(mechanism: WordMechanism) -> None:
    drawn = mechanism.release(["right"] * 1000 + ["left"] * 1000, [10_000 * NANO, NANO // 100] * 1000)
    assert set(drawn[:1000:2]) == {"right"}
    assert set(drawn[1000::2]) == {"left"}
    assert len(set(drawn[1::2])) > 1


def test_two_calls_draw_afresh(mechanism: WordMechanism) -> None:
    assert mechanism.release(["right"] * 200, [NANO] * 200) != mechanism.release(["right"] * 200, [NANO] * 200)


def test_the_shipped_vocabulary_keeps_its_promises() -> None:
    vocabulary = shipped()
    assert len(vocabulary.words) == WORDS_MAX
    norms = np.linalg.norm(vocabulary.codes.astype(np.float64), axis=1) / vocabulary.scale
    assert norms.max() <= 1.0
    assert norms.min() > 0.96
    assert all(word == word.lower() and not any(map(str.isnumeric, word)) for word in vocabulary.words)
    sample = vocabulary.words[::500]
    for part in (vocabulary, vocabulary.leading(24)):
        assert part.nearest(part.rows(sample)) == list(sample), "without noise a word is itself"
        nearest = np.argsort(part.squared_distances(part.rows(["terrible"]))[0])[1:6]
        assert {"awful", "horrible"} <= {part.words[index] for index in nearest}


def test_distances_are_exact_and_the_same_in_every_batch() -> None:
    vocabulary = shipped()
    rows = vocabulary.rows([*vocabulary.words[:60], "twenty-one", UNKNOWN])
    exact = ((rows[:, None].astype(np.int64) - vocabulary.codes[None, :3000]) ** 2).sum(axis=2)
    together = vocabulary.squared_distances(rows)
    assert (together[:, :3000] == exact).all()
    for i in range(len(rows)):
        assert (vocabulary.squared_distances(rows[i : i + 1])[0] == together[i]).all()


def test_a_vocabulary_survives_its_file(tmp_path) -> None:
    path = tmp_path / "words.safetensors"
    save(path, on_a_line(), metadata={})
    back = load(path)
    assert back.words == tuple(LINE)
    assert (back.codes == on_a_line().codes).all()
    assert back.scale == 100


def test_a_broken_vocabulary_is_refused() -> None:
    for words, codes in [
        ((), np.ones((0, 1), dtype=np.int8)), (("a", "a"), np.ones((2, 1), dtype=np.int8)),
        (("a", "b"), np.ones((1, 1), dtype=np.int8)), (("a",), np.ones((1, 1), dtype=np.float32)),
        (("a",), np.zeros((1, 1), dtype=np.int8)), (("a",), np.full((1, 300), 127, dtype=np.int8)),
        ([str(i) for i in range(WORDS_MAX + 1)], np.ones((WORDS_MAX + 1, 1), dtype=np.int8)),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="vocabulary"):
            WordVectors(words, codes)


def test_the_price_by_noise_is_epsilon_per_unit_and_twice_that_for_any_replacement() -> None:
    shown, worst = word_events(2.5, mechanism="laplace")
    assert (shown.unit, shown.adjacency, shown.guarantee) == (Unit.VECTOR, Adjacency.METRIC, Guarantee.METRIC_DP)
    assert (worst.unit, worst.adjacency) == (Unit.TOKEN, Adjacency.REPLACE_ONE)
    assert (shown.epsilon_nano, worst.epsilon_nano) == (2_500_000_000, 5_000_000_000)


def test_an_epsilon_that_cannot_be_counted_is_refused() -> None:
    for epsilon in [0, -1, float("nan"), float("inf"), 2_000_001]:
        with pytest.raises(InvalidInput):
            word_events(epsilon, mechanism="exponential")


def test_the_worst_case_by_selection_is_the_exact_one_rounded_up() -> None:
    for epsilon in [1e-9, 0.001, 1.0, 10.0, 20.0, 50.0, 1000.0, 2e6]:
        nano = round(epsilon * NANO)
        with mpmath.workdps(100):
            rate, others = mpmath.mpf(nano) / NANO, WORDS_MAX - 1
            exact = rate + mpmath.log((1 + others * mpmath.e**rate) / (mpmath.e**rate + others))
            charged = worst_case_nano(nano, mechanism="exponential")
            assert 0 <= charged - exact * NANO < 1
        assert charged <= worst_case_nano(nano, mechanism="laplace") == 2 * nano

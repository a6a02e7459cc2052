"""Word-level metric DP: its distribution, what it says of unknown words, and black-box audits with planted bugs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from audit_kit import RUNS, epsilon_bound
from scipy import stats

from core.accounting.events import Adjacency, Guarantee, Unit
from core.errors import InvalidInput
from core.mechanisms.vectors import metric
from core.mechanisms.word_pricing import word_events
from core.mechanisms.word_vectors import WordVectors, load, save, shipped
from core.mechanisms.words import WordMechanism

NANO = 10**9
FALSE_ALARM = 1e-6
# on a line, the far ends 2 apart, each with a word beside it: what is nearest to an end is nearly all beyond it
LINE = {"left": -1.0, "lefter": -0.98, "righter": 0.98, "right": 1.0}
UNKNOWN = "zworykin"


def on_a_line(places: dict[str, float] = LINE) -> WordVectors:
    return WordVectors(tuple(places), np.array(list(places.values()), dtype=np.float32)[:, None])


def draws(mechanism: WordMechanism, word: str, epsilon: float, runs: int = RUNS) -> Counter[str]:
    return Counter(mechanism.release([word] * runs, [round(epsilon * NANO)] * runs))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_word_stays_as_often_as_the_noise_says(epsilon: float) -> None:
    ends = WordMechanism(on_a_line({"left": -1.0, "right": 1.0}))

    stays = draws(ends, "right", epsilon)["right"]

    expected = 1 - np.exp(-epsilon) / 2  # Laplace noise of scale 1/eps that does not pass the middle, 1 away
    assert stats.binomtest(stays, RUNS, expected).pvalue > FALSE_ALARM


def test_every_word_can_come_out_whatever_went_in() -> None:
    for word in (*LINE, UNKNOWN, "4711", ""):
        assert set(draws(WordMechanism(on_a_line()), word, 1.0, 20_000)) == set(LINE)


def test_a_word_outside_the_vocabulary_is_the_origin_or_the_mean_of_its_known_parts() -> None:
    vocabulary = on_a_line()

    rows = vocabulary.rows([UNKNOWN, "", "3.14", "left-right", "Right", "RIGHT’s", "lefter-zworykin"])

    assert rows[:, 0].tolist() == pytest.approx([0, 0, 0, 0, 1, 1, -0.98])
    halves = draws(WordMechanism(vocabulary), UNKNOWN, 1.0)
    assert stats.binomtest(halves["left"] + halves["lefter"], RUNS, 0.5).pvalue > FALSE_ALARM


def test_draws_of_one_call_are_independent_of_each_other() -> None:
    mechanism = WordMechanism(on_a_line())
    drawn = mechanism.release(["right"] * RUNS, [NANO] * RUNS)

    table = np.zeros((len(LINE), len(LINE)))
    places = {word: index for index, word in enumerate(LINE)}
    for one, other in zip(drawn[::2], drawn[1::2], strict=True):
        table[places[one], places[other]] += 1
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


def test_each_word_has_the_noise_of_its_own_epsilon() -> None:
    mechanism = WordMechanism(on_a_line())

    drawn = mechanism.release(["right"] * 1000 + ["left"] * 1000, [10_000 * NANO, NANO // 100] * 1000)

    assert set(drawn[:1000:2]) == {"right"}
    assert set(drawn[1000::2]) == {"left"}
    assert len(set(drawn[1::2])) > 1


def test_two_calls_draw_afresh() -> None:
    mechanism = WordMechanism(on_a_line())
    assert mechanism.release(["right"] * 200, [NANO] * 200) != mechanism.release(["right"] * 200, [NANO] * 200)


def lower_bound(mechanism: WordMechanism, *, often: str, seldom: str, event: str, epsilon: float) -> float:
    """What the draws prove of epsilon between the words `often` and `seldom` (audit_kit)."""
    return epsilon_bound(draws(mechanism, often, epsilon)[event], draws(mechanism, seldom, epsilon)[event], RUNS)


@pytest.mark.parametrize(
    ("often", "seldom", "distance"), [("right", "left", 2.0), ("right", "righter", 0.02), ("right", UNKNOWN, 1.0)]
)
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_the_empirical_bound_stays_under_the_claim(often: str, seldom: str, distance: float, epsilon: float) -> None:
    bound = lower_bound(WordMechanism(on_a_line()), often=often, seldom=seldom, event=often, epsilon=epsilon)

    assert bound <= epsilon * distance
    if distance >= 1:
        assert bound >= 0.85 * epsilon * distance, "the audit has no power"


def test_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = metric.add_l2_laplace
    monkeypatch.setattr(
        metric, "add_l2_laplace", lambda rows, *, scale, generator: whole(rows, scale=scale / 2, generator=generator)
    )

    assert lower_bound(WordMechanism(on_a_line()), often="right", seldom="left", event="right", epsilon=1.0) > 2.0


class PassesUnknown(WordMechanism):
    def release(self, words, epsilon_nano):
        known = set(self.vocabulary.words)
        drawn = super().release(words, epsilon_nano)
        return [new if word in known else word for word, new in zip(words, drawn, strict=True)]


def test_passing_an_unknown_word_through_is_caught() -> None:
    mechanism = PassesUnknown(on_a_line())

    assert lower_bound(mechanism, often=UNKNOWN, seldom="right", event=UNKNOWN, epsilon=1.0) > 1.0


class ExcludesTheInput(WordMechanism):
    def release(self, words, epsilon_nano):
        others = {word: WordMechanism(on_a_line({w: x for w, x in LINE.items() if w != word})) for word in set(words)}
        places = on_a_line()
        drawn = super().release(words, epsilon_nano)
        return [
            others[word].vocabulary.nearest(places.rows([word]))[0] if new == word else new
            for word, new in zip(words, drawn, strict=True)
        ]


def test_excluding_the_input_is_caught() -> None:
    mechanism = ExcludesTheInput(on_a_line())
    runs = 2_000
    often, seldom = (draws(mechanism, word, 1.0, runs)["right"] for word in ("righter", "right"))

    assert epsilon_bound(often, seldom, runs) > 0.02, "the two words are 0.02 apart"


def test_the_shipped_vocabulary_keeps_its_promises() -> None:
    vocabulary = shipped()

    assert len(vocabulary.words) == 30_000
    norms = np.linalg.norm(vocabulary.vectors.astype(np.float64), axis=1)
    assert norms.max() <= 1.0
    assert norms.min() > 0.999
    assert all(word == word.lower() and not any(map(str.isnumeric, word)) for word in vocabulary.words)
    sample = vocabulary.words[::500]
    assert vocabulary.nearest(vocabulary.rows(sample)) == list(sample), "without noise a word is itself"
    nearest = np.argsort(-(vocabulary.vectors @ vocabulary.rows(["terrible"])[0]))[1:6]
    assert {"awful", "horrible"} <= {vocabulary.words[index] for index in nearest}


def test_a_vocabulary_survives_its_file(tmp_path) -> None:
    path = tmp_path / "words.safetensors"
    save(path, tuple(LINE), on_a_line().vectors, metadata={})

    back = load(path)

    assert back.words == tuple(LINE)
    assert back.vectors[:, 0].tolist() == pytest.approx(list(LINE.values()), abs=1e-3)


@pytest.mark.parametrize(
    ("words", "vectors"),
    [
        ((), np.zeros((0, 1), dtype=np.float32)),
        (("a", "a"), np.zeros((2, 1), dtype=np.float32)),
        (("a", "b"), np.zeros((1, 1), dtype=np.float32)),
        (("a",), np.full((1, 1), 1.001, dtype=np.float32)),
        (("a",), np.full((1, 1), np.nan, dtype=np.float32)),
    ],
)
def test_a_broken_vocabulary_is_refused(words: tuple[str, ...], vectors: np.ndarray) -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        WordVectors(words, vectors)


def test_the_price_is_epsilon_per_unit_and_twice_that_for_any_replacement() -> None:
    shown, worst = word_events(2.5)

    assert (shown.unit, shown.adjacency, shown.guarantee) == (Unit.VECTOR, Adjacency.METRIC, Guarantee.METRIC_DP)
    assert (worst.unit, worst.adjacency) == (Unit.TOKEN, Adjacency.REPLACE_ONE)
    assert (shown.epsilon_nano, worst.epsilon_nano) == (2_500_000_000, 5_000_000_000)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), 2_000_001])
def test_an_epsilon_that_cannot_be_counted_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInput):
        word_events(epsilon)

"""Planted bugs of the fills with a guarantee; each names the step of the proof it breaks."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audits import texts
from audits.bug import Bug, Detector, check, over_claim
from audits.kit import Case, FloatArray, Scale, audit, learned
from audits.texts import EPSILON, WORDS, Moody, draw_cases, fill_cases, slots, vocabulary, word_cases

from core.amounts import NANO
from core.mechanisms.words import replacement, token_selection
from core.mechanisms.words.pricing import DOCUMENT, SLOT
from core.mechanisms.words.replacement import ExponentialWords, LaplaceWords, WordVectors
from core.mechanisms.words.token_selection import GRID
from core.text import model_fills
from core.text.model_fills import Blank, Scored


def _detector(name: str, cases: Callable[[], Iterator[Case]], pairs: int, runs: int) -> Detector:
    return over_claim(name, lambda: audit(cases(), Scale(runs, pairs, 5_000)))


DRAW = _detector("audit of one draw", lambda: draw_cases(61), 300, 30_000)
PLACES = _detector("audit of fills by place", lambda: fill_cases(SLOT, 62), 60, 20_000)
WHOLE = _detector("audit of fills by document", lambda: fill_cases(DOCUMENT, 63), 60, 20_000)
EXPONENTIAL = _detector("audit of exponential words", lambda: word_cases(ExponentialWords, 64), 300, 60_000)
WORST = _detector("audit of the worst case of words", lambda: word_cases(ExponentialWords, 65, worst=True), 500, 60_000)
LAPLACE = _detector("audit of laplace words", lambda: word_cases(LaplaceWords, 66), 100, 60_000)


class Echo(Moody):
    """A model that favours what it reads to the right of a place, or else one word."""

    def _row(self, blank: Blank) -> FloatArray:
        read = " ".join(blank.after).split() or ["wife"]
        return np.array([30.0 if word in read else 0.0 for word in WORDS])


def leaky_fills() -> Iterator[Case]:
    """Two places, of which the right one differs; what comes out of both is learnt from pilot runs."""
    model = Echo(0)
    spelt = {f"{one} {other}": number for number, (one, other) in enumerate((a, b) for a in WORDS for b in WORDS)}
    for pair in (("zebra", "the"), ("zworykin", "the")):
        found = [slots(f"wife {right}", texts.ALL) for right in pair]

        def draw(side: int, runs: int, found: Any = found) -> FloatArray:
            way = texts.dp_draws(found[side], round(EPSILON * NANO), model.candidates, scope=SLOT)
            filled = model_fills.fill_left_to_right([found[side]] * runs, [way] * runs, model)
            return np.asarray([spelt.get(each.text, len(spelt)) for each in filled])

        yield learned(draw, len(spelt) + 1, EPSILON, "two places", pilot=4_000)


def fixed_draws() -> Iterator[Case]:
    """One draw where the model is sure; what comes out is learnt from pilot runs."""
    scored = np.array([GRID, 0, 0, 0], dtype=np.int64)
    for pair in ((0, 1), (1, 0), (None, 1)):

        def draw(side: int, runs: int, pair: Any = pair) -> FloatArray:
            nano = round(EPSILON * NANO)
            return np.asarray([texts.select(scored, pair[side], epsilon_nano=nano) for _ in range(runs)])

        yield learned(draw, 4, EPSILON, "a sure model", pilot=4_000)


def unknown_words(make: Callable[[WordVectors], Any] = ExponentialWords) -> Iterator[Case]:
    """A word outside the vocabulary against one inside; which word comes out, another one than all of them included."""
    rng = np.random.default_rng(67)
    for _ in range(6):
        known = vocabulary(rng)
        mechanism = make(known)
        places = {word: index for index, word in enumerate(known.words)}
        for pair in ((known.words[0], "zworykin"), ("zworykin", known.words[0])):
            rows = known.rows(list(pair)).astype(np.float64) / known.scale

            def draw(
                side: int, runs: int, pair: Any = pair, mechanism: Any = mechanism, places: Any = places
            ) -> FloatArray:
                drawn = mechanism.release([pair[side]] * runs, [NANO] * runs)
                return np.asarray([places.get(word, len(places)) for word in drawn])

            claim = max(0.1, float(np.linalg.norm(rows[0] - rows[1])))
            yield learned(draw, len(places) + 1, claim, "a word outside the vocabulary", pilot=5_000)


def word_pairs() -> Iterator[Case]:
    """Two words that are equal or not: do different words come out?"""
    known = WordVectors(("left", "right"), np.array([[-100], [100]], dtype=np.int8))

    def draw(side: int, runs: int) -> FloatArray:
        text = ["left", ("right", "left")[side]] * runs
        drawn = np.array([word == "left" for word in ExponentialWords(known).release(text, [NANO] * len(text))])
        return np.asarray((drawn[::2] != drawn[1::2]).astype(np.float64))

    yield Case("two words, equal or not", 2.0, draw)


LEAKS = over_claim("audit of the place to the left", lambda: audit(leaky_fills(), Scale(20_000, 2, 10_000)))
SURE = over_claim("audit of a draw by a sure model", lambda: audit(fixed_draws(), Scale(20_000, 3, 3_000)))
UNKNOWN = over_claim("audit of unknown words", lambda: audit(unknown_words(), Scale(30_000, 12, 5_000)))
PAIRS = over_claim("audit of equal words", lambda: audit(word_pairs(), Scale(20_000, 1, 5_000)))


def _not_finite_is_refused() -> bool:
    for bad in (np.nan, np.inf):
        try:
            token_selection.scores(np.array([[0.0, bad]], dtype=np.float32), clip=1.0)
        except ValueError:
            continue
        return False
    return True


def _extreme_draws_reach_every_tie() -> bool:
    """At epsilon 250 two candidates of the largest weight come out, and no other."""
    scored = np.zeros(4_096, dtype=np.int64)
    scored[4_094:] = GRID
    drawn = {texts.select(scored, None, epsilon_nano=250 * NANO) for _ in range(64)}
    near = np.array([GRID, GRID - GRID // 250], dtype=np.int64)
    second = sum(texts.select(near, None, epsilon_nano=250 * NANO) for _ in range(2_000))
    return drawn == {4_094, 4_095} and 350 < second < 750


FINITE = check("logits that are not finite are refused", _not_finite_is_refused)
EXTREME = check("large epsilons keep every proportion", _extreme_draws_reach_every_tie)


def _select(broken: Callable[[Any, Any, int], int]) -> Callable[[pytest.MonkeyPatch], None]:
    """Another `select`, for one draw and inside fills."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        def select(scored: Any, own: Any, *, epsilon_nano: int) -> int:
            return broken(scored, own, epsilon_nano)

        for module in (texts, token_selection, model_fills):
            patch.setattr(module, "select", select)

    return plant


_right_select = token_selection.select


def _twice(scored: Any, own: Any, nano: int) -> int:
    return _right_select(scored, own, epsilon_nano=2 * nano)


def _added(scored: Any, own: Any, nano: int) -> int:
    """The own token's bonus on top of its score: weights up to e^2R."""
    favoured = scored.copy()
    if own is not None:
        favoured[own] += GRID
    return token_selection.exponential_mechanism(favoured, epsilon_nano=2 * nano, sensitivity=GRID)


def _only_the_best(scored: Any, own: Any, nano: int) -> int:
    """The candidates are those that fit best, and the own one."""
    kept = sorted({int(np.argmax(scored)), *([] if own is None else [own])})
    if len(kept) < 2:
        return kept[0]
    place = kept.index(own) if own is not None else None
    return kept[_right_select(scored[kept], place, epsilon_nano=nano)]


def _not_itself(scored: Any, own: Any, nano: int) -> int:
    """The own token never comes out."""
    while True:
        drawn = _right_select(scored, own, epsilon_nano=nano)
        if drawn != own:
            return drawn


def _eighth_bits(scored: Any, own: Any, nano: int) -> int:
    favoured = scored.astype(np.float16)
    if own is not None:
        favoured[own] = GRID
    weights = np.exp(np.minimum(favoured.astype(np.float32) / GRID * (nano / NANO), 80))
    return int(np.random.default_rng().choice(len(scored), p=weights / weights.sum()))


def _draws(change: Callable[[Any, Any, Scored], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Another way to choose the word of a place, from the inspected text and the right way."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real = texts.dp_draws

        def broken(found: Any, epsilon_nano: int, candidates: Any, *, scope: str) -> Scored:
            return change(found, candidates, real(found, epsilon_nano, candidates, scope=scope))

        patch.setattr(texts, "dp_draws", broken)

    return plant


def _reads_the_right(found: Any, candidates: Any, real: Scored) -> Scored:
    last = len(found.masks) - 1
    return Scored(lambda place, row: real.choose(last, row))


def _whole_epsilon_each(patch: pytest.MonkeyPatch) -> None:
    real = texts.dp_draws
    patch.setattr(
        texts, "dp_draws", lambda found, nano, candidates, *, scope: real(found, nano, candidates, scope=SLOT)
    )


def _twice_the_epsilon(patch: pytest.MonkeyPatch) -> None:
    real = texts.dp_draws
    patch.setattr(
        texts, "dp_draws", lambda found, nano, candidates, *, scope: real(found, 2 * nano, candidates, scope=scope)
    )


def _unknown_stays(found: Any, candidates: Any, real: Scored) -> Scored:
    def choose(place: int, row: Any) -> str:
        mask = found.masks[place]
        word = found.text[mask.start : mask.end]
        return word if candidates.place(word) is None else real.choose(place, row)

    return Scored(choose)


def _shows_originals(patch: pytest.MonkeyPatch) -> None:
    """The model reads the originals to the right of a place."""
    real = model_fills._Passage.blank.fget  # type: ignore[attr-defined]

    def broken(self: Any) -> Any:
        return replace(real(self), after=(self.private,))

    begun = model_fills._Passage.__init__

    def begin(self: Any, found: Any) -> None:
        begun(self, found)
        self.private = found.text

    patch.setattr(model_fills._Passage, "__init__", begin)
    patch.setattr(model_fills._Passage, "blank", property(broken))


def _finite_enough(patch: pytest.MonkeyPatch) -> None:
    real = token_selection.scores
    patch.setattr(token_selection, "scores", lambda logits, *, clip: real(np.nan_to_num(logits), clip=clip))


def _word_select(**changes: Callable[[int], int]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real = replacement.select

        def broken(squares: Any, **given: Any) -> Any:
            return real(squares, **{key: changes.get(key, int)(value) for key, value in given.items()})

        patch.setattr(replacement, "select", broken)

    return plant


def _squared(patch: pytest.MonkeyPatch) -> None:
    """Weights by squared distances, for which no triangle inequality holds."""
    real = replacement.select
    patch.setattr(
        replacement,
        "select",
        lambda squares, *, scale, **rest: real(
            (squares.astype(np.float64) ** 2 / scale**2).astype(np.float32), scale=scale, **rest
        ),
    )


def _released(
    kind: type, change: Callable[[Any, list[str], list[str]], list[str]]
) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real = kind.release
        patch.setattr(kind, "release", lambda self, given, nano: change(self, given, real(self, given, nano)))

    return plant


def _passes_unknown(self: Any, given: list[str], drawn: list[str]) -> list[str]:
    known = set(self.vocabulary.words)
    return [new if word in known else word for word, new in zip(given, drawn, strict=True)]


def _never_itself(self: Any, given: list[str], drawn: list[str]) -> list[str]:
    known = self.vocabulary.words
    return [known[known.index(new) - 1] if new == word else new for word, new in zip(given, drawn, strict=True)]


def _one_draw_a_word(self: Any, given: list[str], drawn: list[str]) -> list[str]:
    """Equal words beside each other share a draw."""
    return [drawn[i - i % 2] if given[i - i % 2] == word else drawn[i] for i, word in enumerate(given)]


def _half_noise(patch: pytest.MonkeyPatch) -> None:
    real = LaplaceWords._noisy
    patch.setattr(LaplaceWords, "_noisy", lambda self, nano: real(self, 2 * nano))


def _longer_rows(patch: pytest.MonkeyPatch) -> None:
    """Words outside the vocabulary get the sum of their parts' codes, beyond the unit ball, and no clipping."""
    from core.mechanisms.vectors.metric import MetricMechanism

    patch.setattr(
        MetricMechanism, "clipped_projection", lambda self, vectors: self.projected(3 * vectors.astype(np.float64))
    )


def _bare_range(patch: pytest.MonkeyPatch) -> None:
    """The range R as the price, without the change of the sum of weights."""
    patch.setattr(texts, "draw_epsilon_nano", lambda nano, *, candidates: nano)


_DP, _METRIC = "fill dp", "fill metric_dp"

BUGS: tuple[Bug, ...] = (
    Bug("weights up to e^2R", _DP, "the own token has e^R", _select(_twice), DRAW),
    Bug("the bonus on top of the score", _DP, "e^R instead of its weight", _select(_added), SURE),
    Bug("candidates that fit alone", _DP, "a fixed public list", _select(_only_the_best), DRAW),
    Bug("the original never comes out", _DP, "y = x has weight e^R", _select(_not_itself), SURE),
    Bug("16-bit weights cut at e^80", _DP, "drawn in exact proportion", _select(_eighth_bits), EXTREME),
    Bug("logits that are not finite", _DP, "nothing is asked of logits but to be finite", _finite_enough, FINITE),
    Bug(
        "a place reads the original of another",
        _DP,
        "an original moves its own draw alone",
        _draws(_reads_the_right),
        LEAKS,
    ),
    Bug("the model reads the originals to the right", _DP, "masks at slots to the right", _shows_originals, LEAKS),
    Bug("a place at twice the epsilon", _DP, "each draw has eps", _twice_the_epsilon, PLACES),
    Bug(
        "an unknown original stays",
        _DP,
        "an original that is no candidate comes out as whatever fits",
        _draws(_unknown_stays),
        LEAKS,
    ),
    Bug(
        "the whole epsilon for each word of a document",
        _DP,
        "each of the n draws has eps / n",
        _whole_epsilon_each,
        WHOLE,
    ),
    Bug(
        "a rate of eps",
        _METRIC,
        "probability e^(-eps d / 2) / Z",
        _word_select(epsilon_nano=lambda nano: 2 * nano),
        EXPONENTIAL,
    ),
    Bug(
        "half of the scale",
        _METRIC,
        "codes over the public length",
        _word_select(scale=lambda scale: scale // 2),
        EXPONENTIAL,
    ),
    Bug("squared distances", _METRIC, "the triangle inequality", _squared, EXPONENTIAL),
    Bug(
        "an unknown word passes",
        _METRIC,
        "over the whole vocabulary, for any two strings",
        _released(ExponentialWords, _passes_unknown),
        UNKNOWN,
    ),
    Bug(
        "a word never stays",
        _METRIC,
        "a word may come out as itself",
        _released(ExponentialWords, _never_itself),
        UNKNOWN,
    ),
    Bug(
        "equal words share a draw",
        _METRIC,
        "each word has a draw of its own",
        _released(ExponentialWords, _one_draw_a_word),
        PAIRS,
    ),
    Bug("the range as the price", _METRIC, "R + ln((1 + (V - 1) e^R) / (e^R + V - 1))", _bare_range, WORST),
    Bug("half the noise on words", _METRIC, "released by laplace", _half_noise, LAPLACE),
    Bug("vectors outside the ball", _METRIC, "all vectors lie in the unit ball", _longer_rows, LAPLACE),
)

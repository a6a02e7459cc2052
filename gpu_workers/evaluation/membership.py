"""Whether two planted canaries can be distinguished by what is released of them, beside what the mechanism claims.

The canaries are neighbours by the adjacency of the method: two texts of one unit each, a sentence or a whole text. They
are the two units of the corpus with the smallest cosine.
Further sentences, which are the same on both sides, would only hide the one that differs.

The attacker knows both canaries and may run the mechanism on them. The draws of each have three parts. On the first,
the attacker learns scores: a linear direction, the difference of the distances to the two means, and the frequency
ratio of outcomes that occur again. Where released vectors have the dimension of the canaries, the product with the
difference of the two is a further score. On the second part, the attacker fixes a score and a threshold. The third is
counted.

Guarantee: score and threshold are fixed before the draws that count, so each bound holds with the confidence: both of
its two Clopper-Pearson bounds hold, with half of the error on each. `found > claim` contradicts the claim at that
confidence. With many attacks, divide the error by their number.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import beta
from sklearn.linear_model import Ridge

from core.amounts import epsilon_of
from gpu_workers.evaluation.corpus import Encoded, FloatArray, Source, scaled
from gpu_workers.evaluation.spec import EmbeddingMethod

DRAWS = 1_000  # of each canary that count. As many are learnt from, and half as many fix score and threshold
_UNITS_MAX = 2_000

Numbers = npt.NDArray[Any]
Score = Callable[[FloatArray], Numbers]
Sides = list[list[Numbers]]  # of each score, the values of the first canary and of the second


@dataclass(frozen=True)
class Membership:
    """One attack. `claim`: the epsilon of replacing the unit by any other. `found`: epsilon is at least this.
    `advantage`: true minus false positives as measured, `advantage_low` at least. `bound`: what the guarantee allows.
    """

    name: str
    claim: float
    found: float
    advantage: float
    advantage_low: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the claim."""
        return self.found <= self.claim and self.advantage_low <= self.bound


def canaries(source: Source) -> tuple[FloatArray, FloatArray]:
    """Return the two units with the smallest cosine, of the first _UNITS_MAX, float32 `[1, d]` each."""
    units = np.concatenate(source.vectors)[:_UNITS_MAX]
    cosines = scaled(units) @ scaled(units).T
    first, second = np.unravel_index(int(np.argmin(cosines)), cosines.shape)
    return units[first][None], units[second][None]


def attack(
    encoded: Encoded,
    method: EmbeddingMethod,
    place: int,
    pair: tuple[FloatArray, FloatArray],
    *,
    bound: float,
    confidence: float,
    draws: int = DRAWS,
) -> Membership:
    """Attack the method at the epsilon of this place by the canaries `pair`. `bound`: of the advantage. Raises
    JobFailed."""
    learnt, fixed = draws, draws // 2
    drawn = [encoded.drawn(method.releasers[place], [unit] * (learnt + fixed + draws)) for unit in pair]
    scores = _scores(pair, *(each[:learnt] for each in drawn))
    choice = [[score(each[learnt:-draws]) for each in drawn] for score in scores]
    tested = [[score(each[-draws:]) for each in drawn] for score in scores]
    level = (1 + confidence) / 2
    likely = _best(choice, lambda false, true: _epsilon(false, true, fixed, level))
    false, true = _hits(tested, _best(choice, lambda false, true: true - false))
    return Membership(
        name=method.name,
        claim=epsilon_of(method.events[place].epsilon_nano),
        found=max(0.0, float(_epsilon(*_hits(tested, likely), draws, level))),
        advantage=float(true - false) / draws,
        advantage_low=max(0.0, float(_low(true, draws, level) - _high(false, draws, level))),
        bound=bound,
    )


def _scores(pair: tuple[FloatArray, FloatArray], first: FloatArray, second: FloatArray) -> list[Score]:
    """Return scores that are larger for releases of the second canary, learnt from these releases."""
    rows = np.concatenate([first, second])
    scale = float(np.sqrt(np.mean(np.square(rows - rows.mean(axis=0))))) or 1.0
    line = Ridge(float(len(rows))).fit(rows / scale, np.repeat([-1.0, 1.0], len(first)))
    means = first.mean(axis=0), second.mean(axis=0)
    counts = [Counter(row.tobytes() for row in own) for own in (first, second)]

    def along(drawn: FloatArray) -> Numbers:
        return np.asarray(line.predict(drawn / scale), dtype=np.float64)

    def nearer(drawn: FloatArray) -> Numbers:
        distances = [np.linalg.norm(drawn - mean, axis=1) for mean in means]
        return np.asarray(distances[0] - distances[1], dtype=np.float64)

    def frequency(drawn: FloatArray) -> Numbers:
        outcomes = [row.tobytes() for row in drawn]
        return np.array([math.log((counts[1][each] + 0.5) / (counts[0][each] + 0.5)) for each in outcomes])

    def planted(drawn: FloatArray) -> Numbers:
        return np.asarray(drawn @ (pair[1] - pair[0])[0], dtype=np.float64)

    return [along, nearer, frequency, *([planted] if first.shape[1] == pair[0].shape[1] else [])]


@dataclass(frozen=True)
class _Event:
    """A score times the sign is at least the threshold. It speaks for the second canary, or for the first if the sign
    is -1."""

    score: int
    sign: int
    threshold: float


def _best(choice: Sides, value: Callable[[Numbers, Numbers], Numbers]) -> _Event:
    """Return the event with the largest value, which is a function of false and true positives."""
    best, largest = _Event(0, 1, -math.inf), -math.inf
    for number, sides in enumerate(choice):
        for sign in (1, -1):
            thresholds = np.append(np.unique(sign * np.concatenate(sides)), np.inf)
            hits = [len(own) - np.searchsorted(np.sort(sign * own), thresholds) for own in sides[::sign]]
            values = value(*hits)
            place = int(np.argmax(values))
            if values[place] > largest:
                best, largest = _Event(number, sign, float(thresholds[place])), float(values[place])
    return best


def _hits(tested: Sides, event: _Event) -> tuple[Numbers, Numbers]:
    """Return the false and the true positives of an event."""
    false, true = (event.sign * own >= event.threshold for own in tested[event.score][:: event.sign])
    return np.asarray(false.sum()), np.asarray(true.sum())


def _epsilon(false: Numbers, true: Numbers, draws: int, level: float) -> Numbers:
    """Return the lower bound on epsilon by each event, -inf where it never speaks for its canary."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(_low(true, draws, level)) - np.log(_high(false, draws, level)))


def _low(count: Numbers, draws: int, level: float) -> Numbers:
    """Return the lower Clopper-Pearson bound at this one-sided level."""
    return np.asarray(np.where(count > 0, beta.ppf(1 - level, np.maximum(count, 1), draws - count + 1), 0.0))


def _high(count: Numbers, draws: int, level: float) -> Numbers:
    """Return the upper Clopper-Pearson bound at this one-sided level."""
    return np.asarray(np.where(count < draws, beta.ppf(level, count + 1, np.maximum(draws - count, 1)), 1.0))

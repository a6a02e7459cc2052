"""The parts of an audit: neighbours, the search for the worst of them, and the bound from fresh runs.

A lower bound is valid because the pair of inputs and the event are fixed before the runs that count are drawn: the
search reads either the mechanism's law in closed form or pilot runs that are thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import numpy.typing as npt
from audit_kit import epsilon_bound

FloatArray = npt.NDArray[np.float64]
Draw = Callable[[int, int], npt.NDArray[np.generic]]

_DEVIATIONS = 5.2  # about what ERROR_RATE / 2 asks for
_PILOT_FIRST = 400


@dataclass(frozen=True)
class Law:
    """What the statistic of a case may be, and with which probability on either side. Shapes: `[values]` each."""

    values: FloatArray
    first: FloatArray
    second: FloatArray


@dataclass(frozen=True)
class Case:
    """Two neighbouring inputs of one mechanism, and what an attacker computes from a release.

    `draw(side, runs)`: one number for each of `runs` fresh releases of the first input (side 0) or of its neighbour
    (side 1); the larger, the more it speaks for the first. `law`: its law in closed form, where there is one.
    `claim`: the epsilon that is promised for these two inputs, at `delta`. `event` says what a large number means.
    """

    facts: str
    claim: float
    draw: Draw
    law: Law | None = None
    event: str = "largest likelihood ratio"
    delta: float = 0.0


@dataclass(frozen=True)
class Scale:
    """How much work an audit does: `runs` that count on each side, `pairs` that the search looks at, and the `pilot`
    runs of a pair whose law has no closed form."""

    runs: int
    pairs: int
    pilot: int

    def at_most(self, runs: int, pairs: int | None = None) -> Scale:
        return replace(self, runs=min(self.runs, runs), pairs=min(self.pairs, pairs or self.pairs))


FULL = Scale(runs=1_000_000, pairs=2_000, pilot=20_000)
QUICK = Scale(runs=50_000, pairs=200, pilot=10_000)


@dataclass(frozen=True)
class Found:
    """What an audit found. `bound` and `claim` are of one unit: epsilon, or mu of a Gaussian release."""

    bound: float
    claim: float
    runs: int
    attack: str
    pairs: int = 0


@dataclass(frozen=True)
class Audit:
    """One row of the page.

    `bar`: the least share of the claim that the strongest attack must prove. `unit`: of bound and claim. A row that is
    no attack, such as a comparison with another accountant, gives the largest share of its claim as the bound.
    """

    name: str
    group: str
    mechanism: str
    claim: str
    adjacency: str
    run: Callable[[Scale], Found]
    bar: float = 0.0
    unit: str = "epsilon"


def promised(law: Law, runs: int, delta: float = 0.0) -> tuple[float, float]:
    """The bound that `runs` runs are expected to give for the best event `statistic >= t`, and t."""
    order = np.argsort(-law.values, kind="stable")
    values, p, q = law.values[order], np.cumsum(law.first[order]), np.cumsum(law.second[order])
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], True))
    p, q, values = np.minimum(p[ends], 1.0), np.minimum(q[ends], 1.0), values[ends]
    low = p - _DEVIATIONS * np.sqrt(p * (1 - p) / runs)
    high = q + _DEVIATIONS * np.sqrt(q * (1 - q) / runs) + 14.5 / runs
    bounds = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -np.inf)
    best = int(bounds.argmax())
    return float(bounds[best]), float(values[best])


def pilot_law(case: Case, runs: int) -> Law:
    """The law of a case's statistic as `runs` runs on either side show it."""
    first, second = (np.asarray(case.draw(side, runs), dtype=np.float64) for side in (0, 1))
    share = np.full(runs, 1 / runs)
    none = np.zeros(runs)
    return Law(np.concatenate([first, second]), np.concatenate([share, none]), np.concatenate([none, share]))


@dataclass(frozen=True)
class Attack:
    """A case and its event, fixed before the runs that count."""

    case: Case
    threshold: float
    promise: float = field(compare=False)

    def measure(self, runs: int, *, batch: int = 50_000) -> float:
        """The lower bound on epsilon from `runs` fresh runs on either side."""
        hits = [0, 0]
        for side in (0, 1):
            for start in range(0, runs, batch):
                drawn = self.case.draw(side, min(batch, runs - start))
                hits[side] += int((drawn >= self.threshold).sum())
        return epsilon_bound(hits[0], hits[1], runs, delta=self.case.delta)


def attack(case: Case, scale: Scale) -> Attack:
    """The best event of one case."""
    law, runs = (case.law, scale.runs) if case.law else (pilot_law(case, scale.pilot), min(scale.pilot, scale.runs))
    promise, threshold = promised(law, runs, case.delta)
    return Attack(case, threshold, promise)


def search(cases: Iterator[Case], scale: Scale) -> tuple[Attack, int]:
    """The most promising attack, relative to its claim, of the first `scale.pairs` cases, and how many there were.

    Cases with a law in closed form are looked at once. Of the others a short pilot keeps the best sixteenth, which
    get a long one.
    """
    looked = 0
    best: Attack | None = None
    waiting: list[tuple[float, Case]] = []
    for case in islice(cases, scale.pairs):
        looked += 1
        if case.law is not None:
            found = attack(case, scale)
            if best is None or found.promise / case.claim > best.promise / best.case.claim:
                best = found
        else:
            short = min(_PILOT_FIRST, scale.pilot)
            waiting.append((promised(pilot_law(case, short), short)[0] / case.claim, case))
    waiting.sort(key=lambda one: -one[0])
    for _, case in waiting[: max(8, len(waiting) // 16)]:
        found = attack(case, scale)
        if best is None or found.promise / case.claim > best.promise / best.case.claim:
            best = found
    if best is None:
        raise ValueError("no neighbours to look at")
    return best, looked


def audit(cases: Iterator[Case], scale: Scale, *, batch: int = 50_000) -> Found:
    """Search, then the bound of the strongest attack on fresh runs."""
    strongest, looked = search(cases, scale)
    bound = strongest.measure(scale.runs, batch=batch)
    case = strongest.case
    return Found(bound, case.claim, scale.runs, f"{case.facts}; event: {case.event}", looked)


def by_law(first: FloatArray, second: FloatArray) -> tuple[FloatArray, Law]:
    """For a finite release: the statistic of each outcome, its log likelihood ratio, and the law of that."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(np.log(first) - np.log(second), nan=0.0, posinf=700.0, neginf=-700.0)
    # outcomes of one ratio are one event, whatever the last digits
    ratio = np.round(ratio, 9)
    return ratio, Law(ratio, first, second)


def learned(draw: Draw, labels: int, claim: float, facts: str, *, pilot: int) -> Case:
    """A case whose statistic is the likelihood ratio of each of `labels` outcomes, learnt from pilot runs.

    `draw` gives outcomes 0..labels-1; nothing is assumed of their law.
    """
    counts = [np.bincount(np.asarray(draw(side, pilot), dtype=np.int64), minlength=labels) + 0.5 for side in (0, 1)]
    ratio = np.log(counts[0]) - np.log(counts[1])
    return Case(facts, claim, lambda side, runs: np.asarray(ratio[np.asarray(draw(side, runs), dtype=np.int64)]))

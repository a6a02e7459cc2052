"""Audits of several releases of one document, against what the ledger charges or admits for all of them together.

The document has one sentence, and every release of it is attacked at once: the statistic is the sum of the releases'
log likelihood ratios, and its law the convolution of theirs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from audits.kit import Audit, Case, FloatArray, Found, Law, Scale, audit, by_law
from audits.sentences import DIMENSION, candidate_cases, code_pack, selection_cases

from core.accounting.events import PrivacyEvent
from core.accounting.filters import Sums, admits, cost_of, filter_arms
from core.amounts import FEMTO, NANO
from core.mechanisms.sentences.clipped_cosine import ClippedCosine
from core.mechanisms.sentences.domain_pack import CodeNoise
from core.mechanisms.sentences.registry import sentence_event
from core.mechanisms.sentences.sentence_codes import SentenceCodes


def convolved(laws: Sequence[Law]) -> Law:
    """The law of a sum of independent statistics, values a billionth apart taken as one."""
    sums = {0.0: (1.0, 1.0)}
    for law in laws:
        further: dict[float, tuple[float, float]] = {}
        for value, p, q in zip(*_merged(law), strict=True):
            for before, (first, second) in sums.items():
                key = round(before + value, 9)
                own = further.get(key, (0.0, 0.0))
                further[key] = own[0] + first * p, own[1] + second * q
        sums = further
    values = np.array(list(sums))
    both = np.array(list(sums.values()))
    return Law(values, both[:, 0], both[:, 1])


def _merged(law: Law) -> tuple[list[float], list[float], list[float]]:
    values, places = np.unique(law.values, return_inverse=True)
    first, second = (np.bincount(places, weights=side).tolist() for side in (law.first, law.second))
    return values.tolist(), first, second


def together(cases: Sequence[Case], claim: float, facts: str, delta: float = 0.0) -> Case:
    """All of the cases at once, on the same side each."""
    laws = [case.law for case in cases if case.law is not None]

    def draw(side: int, runs: int) -> FloatArray:
        return np.asarray(np.sum([case.draw(side, runs) for case in cases], axis=0))

    return Case(facts, claim, draw, convolved(laws), event="largest product of likelihood ratios", delta=delta)


def response_case(epsilon: float, size: int) -> Case:
    """One release of a sentence by `sentence_codes`."""
    axes = np.eye(DIMENSION, dtype=np.float32)[:size]
    mechanism = SentenceCodes(code_pack(CodeNoise.RESPONSES, axes))
    laws = np.ones((2, size))
    for side in (0, 1):
        laws[side, side] = np.exp(epsilon)
    laws /= laws.sum(axis=1, keepdims=True)
    ratio, law = by_law(laws[0], laws[1])

    def draw(side: int, runs: int) -> FloatArray:
        document = torch.from_numpy(axes[side : side + 1])
        released = mechanism.release([document] * runs, [round(epsilon * NANO)] * runs)
        return np.asarray(ratio[released[:, :size].argmax(axis=1)])

    return Case("one sentence", epsilon, draw, law)


def charged(events: Sequence[PrivacyEvent]) -> float:
    """Epsilon of the events by basic composition, as the ledger counts them."""
    return sum(cost_of(event).epsilon_nano or 0 for event in events) / NANO


def smallest_limit(event: PrivacyEvent, count: int, delta: float) -> float:
    """The least epsilon, to three digits, of an account at `delta` that admits `count` such releases by any arm."""
    low, high = 0.0, count * event.epsilon_nano / NANO
    while high - low > 1e-3:
        middle = (low + high) / 2
        arms = filter_arms(round(middle * NANO), round(delta * FEMTO))
        total = Sums.zero(arms.orders)
        for _ in range(count):
            total += Sums.of(cost_of(event), arms.orders)
        low, high = (low, middle) if admits(arms, total) else (middle, high)
    return high


def repeated_cases(count: int, epsilon: float) -> Iterator[Case]:
    claim = charged([sentence_event("sentence_codes", epsilon)] * count)
    for size in (2, 3, 5):
        yield together([response_case(epsilon, size)] * count, claim, f"{count} releases, {size} codes")


def mixed_cases() -> Iterator[Case]:
    """One release by each of three mechanisms, each on the worst pair that was found for it."""
    parts = {
        "sentence_codes": lambda: iter([response_case(0.7, 2)]),
        "document_selection": lambda: selection_cases(91, 0.7),
        "clipped_cosine": lambda: candidate_cases(ClippedCosine, 92, 0.6),
    }
    events = [sentence_event("sentence_codes", 0.7), sentence_event("document_selection", 0.7)]
    events.append(sentence_event("clipped_cosine", 0.6))
    chosen = []
    for cases in parts.values():
        looked = [case for case, _ in zip(cases(), range(400), strict=False)]
        chosen.append(max(looked, key=lambda case: float(_ratio(case))))
    yield together([replace(case, delta=0.0) for case in chosen], charged(events), "one release by each of three")


def _ratio(case: Case) -> float:
    law = case.law
    if law is None:
        return 0.0
    likely = law.first > 0.02
    return float(law.values[likely].max()) if likely.any() else 0.0


def admitted_cases(count: int, epsilon: float, delta: float) -> Iterator[Case]:
    """As many releases as an account with delta admits beyond the sum of their epsilons."""
    claim = smallest_limit(sentence_event("sentence_codes", epsilon), count, delta)
    cases = [response_case(epsilon, 2)] * count
    yield together(cases, claim, f"{count} releases at {epsilon:g} under a limit of ({claim:.2f}, {delta:g})", delta)


def audits() -> tuple[Audit, ...]:
    def run(cases: Callable[[], Iterator[Case]], runs: int) -> Callable[[Scale], Found]:
        return lambda scale: audit(cases(), scale.at_most(runs), batch=20_000)

    one = "replace one sentence, in every release"
    return (
        Audit(
            "composition-repeated",
            "compositions",
            "4 releases by sentence_codes",
            "pure, the sum",
            one,
            run(lambda: repeated_cases(4, 0.5), 1_000_000),
            0.6,
        ),
        Audit(
            "composition-mixed",
            "compositions",
            "releases by three mechanisms",
            "pure, the sum",
            one,
            run(mixed_cases, 1_000_000),
            0.6,
        ),
        Audit(
            "composition-admitted",
            "compositions",
            "32 releases by sentence_codes, as admitted",
            "delta 1e-3",
            one,
            run(lambda: admitted_cases(32, 0.25, 1e-3), 200_000),
        ),
    )

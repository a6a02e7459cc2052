"""Audits of the fills with a guarantee: `dp` (one draw, one place, a whole document) and `metric_dp` (words).

The language model is a stand-in that answers every context with another row of extreme logits; its seed is searched.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from audits.kit import Audit, Case, FloatArray, Found, Scale, audit, by_law

from core.amounts import NANO
from core.mechanisms.words import pricing
from core.mechanisms.words.pricing import DOCUMENT, PER_UNIT, SLOT, WHOLE, draw_epsilon_nano
from core.mechanisms.words.replacement import ExponentialWords, LaplaceWords, WordMechanism, WordVectors, shipped
from core.mechanisms.words.token_selection import GRID, scores, select
from core.text.mask_words import AllowLists
from core.text.model_fills import CLIP, Blank, Candidates, Scored, dp_draws, fill_left_to_right, slots_of
from core.text.policy import MaskPolicy
from core.text.sanitize import Inspected, inspect_words

EPSILON = 2.0
WORDS = ("the", "wife", "zebra")
ALL = MaskPolicy(techniques=("all",))
_FEW = MaskPolicy(techniques=("vocabulary",), vocabulary_size=5_000)
_LISTS = AllowLists()


class Moody:
    """A model whose logits are another extreme row for every context. Rows are public: they follow from the seed."""

    name = "moody"
    candidates = Candidates(WORDS)
    considered = len(WORDS)

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rows: dict[tuple[str, tuple[str, ...]], FloatArray] = {}

    def ranked(self, blanks: Sequence[Blank], *, count: int) -> list[list[str]]:
        return [list(WORDS[:count]) for _ in blanks]

    def logits(self, blanks: Sequence[Blank]) -> np.ndarray:
        return np.array([self._row(blank) for blank in blanks], dtype=np.float32)

    def _row(self, blank: Blank) -> FloatArray:
        key = blank.before, blank.after
        if key not in self._rows:
            seed = [self._seed, *"".join([blank.before, "|", *blank.after]).encode()]
            self._rows[key] = np.random.default_rng(seed).choice([-30.0, 0.0, 30.0], size=len(WORDS))
        return self._rows[key]


def draw_law(scored: np.ndarray, own: int | None, epsilon: float) -> FloatArray:
    """The law of `token_selection.select`."""
    powers = scored / GRID
    if own is not None:
        powers[own] = 1.0
    weights = np.exp(epsilon * powers)
    return np.asarray(weights / weights.sum())


def draw_cases(seed: int, epsilon: float = EPSILON) -> Iterator[Case]:
    """Cases of one draw: candidates, their scores, and two tokens, of which one may be no candidate."""
    rng = np.random.default_rng(seed)
    while True:
        count = int(rng.choice([2, 3, 8, 40]))
        scored = rng.choice([0, 0, GRID // 2, GRID], size=count).astype(np.int64)
        pair = [None if rng.random() < 0.2 else int(rng.integers(count)) for _ in range(2)]
        ratio, law = by_law(*(draw_law(scored.astype(np.float64), own, epsilon) for own in pair))

        def draw(side: int, runs: int, pair=pair, scored=scored, ratio=ratio) -> FloatArray:
            nano = round(epsilon * NANO)
            return np.asarray(ratio[[select(scored, pair[side], epsilon_nano=nano) for _ in range(runs)]])

        yield Case(f"{count} candidates, tokens {pair[0]} and {pair[1]}", epsilon, draw, law)


def fill_cases(scope: str, seed: int, epsilon: float = EPSILON) -> Iterator[Case]:
    """Cases of a whole fill: one to three words, all or the rare ones masked, and a model."""
    rng = np.random.default_rng(seed)
    words = (*WORDS, "zworykin")
    while True:
        whole = scope == DOCUMENT or rng.random() < 0.7
        count = int(rng.integers(2 if scope == DOCUMENT else 1, 4)) if whole else 2
        first = [str(word) for word in rng.choice(words if whole else ["zebra", "zworykin", "xylotron"], size=count)]
        second = list(first)
        for place in range(count) if scope == DOCUMENT else [int(rng.integers(count))]:
            second[place] = str(rng.choice([word for word in words if whole or word not in ("the", "wife")]))
        texts = [" ".join(each) if whole else f"he met {each[0]} and {each[1]} today" for each in (first, second)]
        if texts[0] != texts[1]:
            yield fill_case(texts, Moody(int(rng.integers(1 << 30))), scope, ALL if whole else _FEW, epsilon)


def slots(text: str, policy: MaskPolicy) -> Inspected:
    return slots_of(inspect_words(text, policy, _LISTS), policy)


def fill_case(texts: list[str], model: Moody, scope: str, policy: MaskPolicy, epsilon: float) -> Case:
    """One case of these two texts; the law is worked out over all that may come out."""
    found = [slots(text, policy) for text in texts]
    count = len(found[0].masks)
    share = epsilon / count if scope == DOCUMENT else epsilon
    outcomes = list(itertools.product(range(len(WORDS)), repeat=count))
    ratio, law = by_law(*(fill_law(each, outcomes, model, share) for each in found))
    spelt = [_forced(found[0], outcome, model)[1] for outcome in outcomes]
    index = {text: number for number, text in enumerate(spelt)}

    def draw(side: int, runs: int) -> FloatArray:
        way = dp_draws(found[side], round(epsilon * NANO), model.candidates, scope=scope)
        filled = fill_left_to_right([found[side]] * runs, [way] * runs, model)
        return np.asarray([ratio[index[each.text]] for each in filled])

    return Case(f"'{texts[0]}' and '{texts[1]}'", epsilon, draw, law)


def _forced(found: Inspected, outcome: Sequence[int], model: Moody) -> tuple[list[FloatArray], str]:
    """The model's rows on the way to an outcome, and the text that comes out."""
    rows: list[FloatArray] = []

    def choose(place: int, row: np.ndarray) -> str:
        rows.append(row)
        return WORDS[outcome[place]]

    (filled,) = fill_left_to_right([found], [Scored(choose)], model)
    return rows, filled.text


def fill_law(found: Inspected, outcomes: Sequence[Sequence[int]], model: Moody, share: float) -> FloatArray:
    originals = [model.candidates.place(found.text[mask.start : mask.end]) for mask in found.masks]
    law = np.ones(len(outcomes))
    for number, outcome in enumerate(outcomes):
        for place, row in enumerate(_forced(found, outcome, model)[0]):
            fitting = (scores(row[None], clip=CLIP)[0] // 2).astype(np.float64)
            law[number] *= draw_law(fitting, originals[place], share)[outcome[place]]
    return law


def vocabulary(rng: np.random.Generator) -> WordVectors:
    """Words at two or three places, of which one holds a crowd."""
    dimension = int(rng.integers(1, 3))
    places = np.clip(rng.normal(size=(3, dimension)) * 100, -100, 100)
    places[0] = 100 * np.eye(dimension)[0]
    places[1] = -places[0] * rng.choice([0.0, 0.5, 0.98, 1.0])
    sizes = rng.choice([1, 1, 3, 30], size=3)
    codes = np.repeat(places, sizes, axis=0).astype(np.int8)
    return WordVectors([f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(len(codes))], codes)


def word_law(words: WordVectors, word: str, epsilon: float) -> FloatArray:
    row = words.rows([word])[0].astype(np.float64)
    distances = np.linalg.norm(words.codes.astype(np.float64) - row, axis=1) / words.scale
    weights = np.exp(-epsilon * distances / 2)
    return np.asarray(weights / weights.sum())


def word_cases(
    make: Callable[[WordVectors], WordMechanism],
    seed: int,
    *,
    worst: bool = False,
    words: WordVectors | None = None,
    epsilons: tuple[float, ...] = (1.0, 1.5),
) -> Iterator[Case]:
    """Cases of `metric_dp`: the claim is epsilon times the distance, or with `worst` that of replacing any word."""
    rng = np.random.default_rng(seed)
    while True:
        known = words or vocabulary(rng)
        mechanism = make(known)
        every = [*known.words, "zworykin", "4711", f"{known.words[0]}-{known.words[-1]}"]
        pair = [every[i] for i in rng.integers(len(every), size=2)]
        rows = known.rows(pair).astype(np.float64) / known.scale
        distance = float(np.linalg.norm(rows[0] - rows[1]))
        epsilon = float(rng.choice(epsilons))
        claim = epsilon * distance
        if worst:
            claim = draw_epsilon_nano(round(epsilon * NANO), candidates=len(known.words)) / NANO
        if distance >= 0.5 and len(known.words) > 1:
            yield word_case(mechanism, known, pair, epsilon, claim)


def word_case(mechanism: WordMechanism, known: WordVectors, pair: list[str], epsilon: float, claim: float) -> Case:
    ratio, law = by_law(*(word_law(known, word, epsilon) for word in pair))
    places = {word: index for index, word in enumerate(known.words)}

    def draw(side: int, runs: int) -> FloatArray:
        drawn = mechanism.release([pair[side]] * runs, [round(epsilon * NANO)] * runs)
        return np.asarray(ratio[[places[word] for word in drawn]])

    return Case(
        f"'{pair[0]}' and '{pair[1]}' of {len(known.words):,} words, epsilon {epsilon:g}",
        claim,
        draw,
        law if isinstance(mechanism, ExponentialWords) else None,
    )


def audits() -> tuple[Audit, ...]:
    def run(cases: Callable[[], Iterator[Case]], runs: int, pairs: int) -> Callable[[Scale], Found]:
        return lambda scale: audit(cases(), scale.at_most(runs, pairs), batch=20_000)

    place, document = pricing.PLACE.split(",")[0], pricing.ANY
    million = 1_000_000
    metric = f"any two words; per {PER_UNIT}"
    return (
        Audit("fill-dp-draw", "fills", "dp, one draw", "pure", place, run(lambda: draw_cases(51), million, 1_000), 0.6),
        Audit(
            "fill-dp-slot",
            "fills",
            "dp, scope slot",
            "pure",
            place,
            run(lambda: fill_cases(SLOT, 52), 200_000, 300),
            0.6,
        ),
        Audit(
            "fill-dp-document",
            "fills",
            "dp, scope document",
            "pure",
            document,
            run(lambda: fill_cases(DOCUMENT, 53), 200_000, 300),
            0.6,
        ),
        Audit(
            "words-exponential",
            "fills",
            "metric_dp, exponential",
            "metric",
            metric,
            run(lambda: word_cases(ExponentialWords, 54), million, 500),
            0.6,
        ),
        Audit(
            "words-worst-case",
            "fills",
            "metric_dp, exponential, worst case",
            "pure",
            WHOLE.split(";")[0],
            run(lambda: word_cases(ExponentialWords, 55, worst=True), million, 1_000),
            0.6,
        ),
        Audit(
            "words-shipped",
            "fills",
            "metric_dp, exponential, shipped words",
            "metric",
            metric,
            run(lambda: word_cases(ExponentialWords, 56, words=shipped(), epsilons=(6.0, 9.0)), million, 300),
        ),
        Audit(
            "words-laplace",
            "fills",
            "metric_dp, laplace",
            "metric",
            metric,
            run(lambda: word_cases(LaplaceWords, 57), million, 100),
            0.6,
        ),
    )

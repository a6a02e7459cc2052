"""The cost and the public facts of texts whose words are replaced under metric DP, or whose masked words `dp` fills.

This module imports neither numpy nor torch. The front end prices requests with it, without the text.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import EPSILON_MAX, NANO, cost_nano, epsilon_of
from core.errors import InvalidInput

_LIMITS: dict[str, Any] = {"prec": 60, "Emin": -999999999999999999, "Emax": 999999999999999999}
_DOWN = Context(rounding=ROUND_FLOOR, **_LIMITS)
_UP = Context(rounding=ROUND_CEILING, **_LIMITS)


def draw_epsilon_nano(range_nano: int, *, candidates: int) -> int:
    """Return the pure epsilon of the draw, in nano, rounded up.

    Guarantee priced: y is drawn from V candidates with probability w_y / sum w, where every weight is in [1, e^R] for
    every input. Then Pr[y | x] <= e^eps Pr[y | x'] for every two inputs and every y, with

        eps(R, V) = R + ln((1 + (V - 1) e^R) / (e^R + V - 1))  <=  2 R.

    Proof. The ratio of two such probabilities of y is largest if w_y = e^R beside others of 1 in one input, and
    w'_y = 1 beside others of e^R in the other: e^R / (e^R + V - 1) over 1 / (1 + (V - 1) e^R). A mechanism that can
    reach both has exactly this epsilon. It grows with V, so the price of a longer list is valid for a shorter one.

    Units: R in nano. Raises: ValueError for fewer than 2 candidates or an R outside 0..`EPSILON_MAX`.
    Source: McSherry and Talwar 2007, with the exact constant of bounded weights.
    """
    if candidates < 2 or not 0 <= range_nano <= EPSILON_MAX * NANO:
        raise ValueError("there must be at least two candidates and a range within the limits of epsilon")
    exact = Decimal(range_nano).scaleb(-9, _UP)
    # with q = e^-R: (1 + (V - 1) e^R) / (e^R + V - 1) = (q + V - 1) / (1 + (V - 1) q), which decreases in q
    least = max(Decimal(0), _DOWN.next_minus(_DOWN.exp(exact.copy_negate())))
    others = Decimal(candidates - 1)
    ratio = _UP.divide(_UP.add(least, others), _DOWN.add(1, _DOWN.multiply(others, least)))
    total = _UP.add(exact, _UP.next_plus(_UP.ln(ratio)))
    return min(int(_UP.multiply(total, NANO).to_integral_value(rounding=ROUND_CEILING)), 2 * range_nano)


EXPONENTIAL = "exponential"
LAPLACE = "laplace"
MECHANISMS = (EXPONENTIAL, LAPLACE)
PER_UNIT = "unit of Euclidean distance between word vectors"
DIAMETER = 2  # of the unit ball, which contains every word's vector
WORDS_MAX = 20_000  # words of a vocabulary; the price depends on it, so `WordVectors` accepts no more

WHOLE = "replace one word of the text by any string that leaves the number of words as it is; that number is public"
MASKED = (
    "replace one masked word by another, given the mask pattern and the kept text; the kept text and which words are "
    "masked have no protection"
)


def worst_case_nano(epsilon_nano: int, *, mechanism: str) -> int:
    """Return the pure epsilon of replacing one word by any other, in nano, rounded up.

    The distance of two words is at most 2, which gives 2 eps by metric DP. The weights e^(-eps d / 2) of the
    exponential mechanism lie in [e^-eps, 1] for every word, which gives the smaller `draw_epsilon_nano` at R = eps. It
    grows with the number of words, so `WORDS_MAX` is valid for every vocabulary.
    """
    if mechanism == LAPLACE:
        return DIAMETER * epsilon_nano
    return draw_epsilon_nano(epsilon_nano, candidates=WORDS_MAX)


def word_events(epsilon: float | int | str | Decimal, *, mechanism: str) -> tuple[PrivacyEvent, ...]:
    """Return the events of one text. The response shows the first one.

    Guarantees priced: replacing one of its words costs eps per unit of distance, for every word and every number of
    words: an event of the unit `vector`, whose accounts count epsilon per unit of distance; and the worst case over all
    words (`worst_case_nano`): an event of the unit `token`.
    Raises: InvalidInput for an epsilon that is not a positive number or whose worst case cannot be counted.
    """
    try:
        nano = cost_nano(epsilon)
    except ValueError:
        nano = 0
    if not 0 < DIAMETER * nano <= EPSILON_MAX * NANO:
        raise InvalidInput(f"epsilon must be a positive number of at most {EPSILON_MAX // DIAMETER}.", field="epsilon")
    name, worst = f"metric_dp_{mechanism}", worst_case_nano(nano, mechanism=mechanism)
    return (
        PrivacyEvent(name, "metric", Unit.VECTOR, Adjacency.METRIC, Guarantee.METRIC_DP, nano),
        PrivacyEvent(name, "metric", Unit.TOKEN, Adjacency.REPLACE_ONE, Guarantee.PURE_DP, worst),
    )


def word_facts(events: tuple[PrivacyEvent, ...], *, whole: bool) -> dict[str, Any]:
    """Return what a response contains beside the first of `word_events`. `whole`: every word is masked."""
    return {
        "unit": Unit.TOKEN.value,
        "adjacency": WHOLE if whole else MASKED,
        "per": PER_UNIT,
        "epsilon_worst_case": epsilon_of(events[1].epsilon_nano),
    }


SLOT, DOCUMENT = SCOPES = ("slot", "document")  # what epsilon protects
DOCUMENT_UNIT = "document"
PLACE = (
    "replace what stands in one masked place by anything else, given the mask pattern and the kept text; the kept text "
    "and which places are masked have no protection"
)
WORD = "replace one word of the text by any other that leaves the number of words as it is; that number is public"
ANY = "replace the whole document by any other of as many words; the number of words is public"


def fill_event(epsilon: float | int | str | Decimal, *, scope: str) -> PrivacyEvent:
    """Return the event of one text. The number of its masked places does not matter.

    Guarantee priced: pure epsilon for replacing the content of one place (scope `slot`), or the whole text by any of as
    many words (scope `document`), hence one of them, which is what a `token` account counts. One draw is no better than
    randomised response, so the kind is `pure`.
    Raises: InvalidInput for an epsilon that is not a positive number that can be counted.
    """
    try:
        nano = cost_nano(epsilon)
    except ValueError:
        nano = 0
    if nano < 1:
        raise InvalidInput(f"epsilon must be a positive number of at most {EPSILON_MAX}.", field="fill.epsilon")
    return PrivacyEvent(f"dp_fill_{scope}", "pure", Unit.TOKEN, Adjacency.REPLACE_ONE, Guarantee.PURE_DP, nano)


def slot_epsilon_nano(epsilon_nano: int, *, scope: str, slots: int) -> int:
    """Return the epsilon of each draw of a text with so many slots. A remainder of the division is not spent."""
    return epsilon_nano // max(slots, 1) if scope == DOCUMENT else epsilon_nano


def fill_facts(*, scope: str, whole: bool) -> dict[str, Any]:
    """Return what a response contains beside `fill_event`. `whole`: every word is a masked place."""
    if scope == DOCUMENT:
        return {"unit": DOCUMENT_UNIT, "adjacency": ANY}
    return {"adjacency": WORD if whole else PLACE}

"""The cost and the public facts of a text whose words are replaced under metric DP.

This module imports neither numpy nor torch. The front end prices requests with it, without the text.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import EPSILON_MAX, NANO, cost_nano, epsilon_of
from core.errors import InvalidInput
from core.mechanisms.words.weight_range import draw_epsilon_nano

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

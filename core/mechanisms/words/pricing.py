"""What a text costs whose words are replaced under metric DP, and what an answer says of it.

Imports neither numpy nor torch: the front end prices a request with it, and never looks at the text.
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
DIAMETER = 2  # of the unit ball, in which every word's vector lies
WORDS_MAX = 20_000  # of a vocabulary; `WordVectors` takes no more, since the price rests on it

WHOLE = "replace one word of the text by any string that leaves the number of words as it is; that number is public"
MASKED = (
    "replace one masked word by another, given the mask pattern and the kept text; the kept text and which words are "
    "masked have no protection"
)


def worst_case_nano(epsilon_nano: int, *, mechanism: str) -> int:
    """Pure epsilon of replacing one word by any other, in nano, rounded up.

    Two words are 2 apart at most: 2 eps by metric DP. The exponential mechanism's weights e^(-eps d / 2) lie in
    [e^-eps, 1], whatever the word: `draw_epsilon_nano` at R = eps, which is less. It grows with the number of words, so
    `WORDS_MAX` serves every vocabulary.
    """
    if mechanism == LAPLACE:
        return DIAMETER * epsilon_nano
    return draw_epsilon_nano(epsilon_nano, candidates=WORDS_MAX)


def word_events(epsilon: float | int | str | Decimal, *, mechanism: str) -> tuple[PrivacyEvent, ...]:
    """The events of one text, the one that an answer shows first.

    Guarantee priced: replacing one of its words costs eps per unit of distance, whichever word and however many there
    are: an event of the unit `vector`, whose accounts count epsilon per unit of distance; and the worst case over all
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
    """What an answer says of `word_events` beside the first of them. `whole`: every word is masked."""
    return {
        "unit": Unit.TOKEN.value,
        "adjacency": WHOLE if whole else MASKED,
        "per": PER_UNIT,
        "epsilon_worst_case": epsilon_of(events[1].epsilon_nano),
    }

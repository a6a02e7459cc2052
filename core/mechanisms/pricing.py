"""What a sentence-level release costs, from its description alone.

Imports no torch: the front end prices a request before any worker sees it, and never looks at the text.
"""

from __future__ import annotations

from decimal import Decimal

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import cost_nano

# The row of the accounting table that prices each mechanism. Randomised response is the worst of all pure mechanisms;
# the exponential mechanism is bounded-range; permute-and-flip is not, and is charged as Laplace.
_KINDS = {"sentence_codes": "pure", "clipped_cosine": "permute_and_flip", "deep_candidate": "exponential"}

SENTENCE_MECHANISMS = tuple(_KINDS)


def sentence_event(mechanism: str, epsilon: float | int | str | Decimal) -> PrivacyEvent:
    """The event of one document released by `mechanism` at `epsilon`.

    Guarantee priced: pure epsilon for replacing one sentence of one document, the number of sentences public.
    Raises: ValueError for an unknown mechanism or an epsilon that is not a positive number in range.
    """
    if mechanism not in _KINDS:
        raise ValueError("unknown sentence mechanism")
    return PrivacyEvent(
        mechanism=mechanism,
        kind=_KINDS[mechanism],
        unit=Unit.SENTENCE,
        adjacency=Adjacency.REPLACE_ONE,
        guarantee=Guarantee.PURE_DP,
        epsilon_nano=cost_nano(epsilon),
    )

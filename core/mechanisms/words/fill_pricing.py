"""The cost and the public facts of a text whose masked words are filled by `dp`.

This module imports neither numpy nor torch. The front end prices requests with it, without the text.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import EPSILON_MAX, cost_nano
from core.errors import InvalidInput

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

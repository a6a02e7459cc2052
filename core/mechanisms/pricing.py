"""What a sentence-level release costs, from its description alone.

Imports no torch: the front end prices a request before any worker sees it, and never looks at the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import cost_nano
from core.mechanisms.pack_facts import CodeNoise

SentenceMechanism = Literal["sentence_codes", "clipped_cosine", "deep_candidate", "document_selection"]

# The row of the accounting table that prices each mechanism. Randomised response is the worst of all pure mechanisms,
# which makes "pure" right for codes by any noise; the exponential mechanism is bounded-range; permute-and-flip is not,
# and is charged as Laplace.
_KINDS = {
    "sentence_codes": "pure",
    "clipped_cosine": "permute_and_flip",
    "deep_candidate": "exponential",
    "document_selection": "pure",
}

SENTENCE_MECHANISMS = tuple(_KINDS)


@dataclass(frozen=True)
class Protection:
    """What a release protects, as an answer's `privacy` block says it: `unit`, and `adjacency` in words.

    The unit is that of the event's account or a coarser one, whose guarantee implies the account's at the same epsilon.
    `length_is_public`: whether documents are neighbours only if they have as many sentences.
    """

    unit: str
    adjacency: str
    length_is_public: bool


_ONE_SENTENCE = Protection("sentence", "replace-one sentence of a document", length_is_public=True)
_WHOLE_DOCUMENT = Protection("document", "replace-one document, of any number of sentences", length_is_public=False)


def protection(mechanism: str) -> Protection:
    """What each document released by `mechanism` is protected against. Raises ValueError for an unknown mechanism."""
    if mechanism not in _KINDS:
        raise ValueError("unknown sentence mechanism")
    return _WHOLE_DOCUMENT if mechanism == "document_selection" else _ONE_SENTENCE


def sentence_event(
    mechanism: str, epsilon: float | int | str | Decimal, code_noise: CodeNoise | None = None
) -> PrivacyEvent:
    """The event of one document released by `mechanism` at `epsilon`.

    Guarantee priced: pure epsilon for replacing one sentence of one document, the number of sentences public. A
    mechanism that protects the whole document (`protection`) protects each sentence at that epsilon and costs the same.

    `code_noise` is the noise of `sentence_codes` in the pack that is used, at this epsilon (`Knobs.code_noise`); other
    mechanisms ignore it. By counts one sentence moves two counts by 1, each with noise of half epsilon of its own. The
    default is right for every pack and dearer.

    Raises: ValueError for an unknown mechanism or an epsilon that is not a positive number in range.
    """
    if mechanism not in _KINDS:
        raise ValueError("unknown sentence mechanism")
    by_counts = mechanism == "sentence_codes" and code_noise is CodeNoise.COUNTS
    return PrivacyEvent(
        mechanism=mechanism,
        kind="two_geometric" if by_counts else _KINDS[mechanism],
        unit=Unit.SENTENCE,
        adjacency=Adjacency.REPLACE_ONE,
        guarantee=Guarantee.PURE_DP,
        epsilon_nano=cost_nano(epsilon),
    )

"""What a sentence-level release costs, from its description alone.

Imports no torch: the front end prices a request before any worker sees it, and never looks at the text.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Literal

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import cost_nano
from core.mechanisms.sentences.pack_facts import CodeNoise

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


def sentence_event(
    mechanism: str, epsilon: float | int | str | Decimal, code_noise: CodeNoise | None = None
) -> PrivacyEvent:
    """The event of one document released by `mechanism` at `epsilon`.

    Guarantee priced: pure epsilon for replacing one sentence of one document, the number of sentences public. A
    mechanism that protects the whole document (`core.mechanisms.sentences.protection`) protects each sentence at that
    epsilon and costs the same.

    `code_noise` is the noise of `sentence_codes` in the pack that is used, at this epsilon
    (`MechanismParameters.code_noise`); other mechanisms ignore it. By counts one sentence moves two counts by 1, each
    with noise of half epsilon of its own. The default is right for every pack and dearer.

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


def words_event(
    mechanism: str, epsilon: float | int | str | Decimal, code_noise: CodeNoise | None = None
) -> PrivacyEvent:
    """The event of one document that is cut into windows of words (`core.text.segment.windows`).

    Guarantee priced: pure epsilon for replacing one word, the number of words public. It is an event of the unit
    `token` alone: a sentence may lie in several windows, and one of another length moves all that follow. The name
    differs from that of the release by sentences, whose plans do not admit it. `document_selection` protects the whole
    document by either list, and has one event.
    Raises: as `sentence_event`.
    """
    event = sentence_event(mechanism, epsilon, code_noise)
    if mechanism == "document_selection":
        return event
    return replace(event, mechanism=f"{mechanism}_words", unit=Unit.TOKEN)

"""The cost of a sentence-level release, computed from its description alone.

This module does not import torch: the front end prices a request before any worker receives it, and without the text.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import NANO, cost_nano, epsilon_of
from core.mechanisms.sentences.pack_facts import CodeNoise
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS

ROUTING_PERCENT = 25  # of epsilon: what the choice of a pack costs, at most the next constant
ROUTING_NANO_MAX = NANO
ROUTED_NANO_MIN = 2  # 1 for the choice and 1 for the release


def routing_share(epsilon_nano: int) -> int:
    """Return what the private choice of a domain pack costs of a release at this epsilon (`routed_codes`).

    The release itself has the rest. Both are at least 1 nano. Units: nano-epsilon. Raises: ValueError below
    `ROUTED_NANO_MIN`, which cannot be divided.
    """
    if epsilon_nano < ROUTED_NANO_MIN:
        raise ValueError(f"a choice of the pack needs an epsilon of at least {epsilon_of(ROUTED_NANO_MIN):g}")
    return max(1, min(epsilon_nano * ROUTING_PERCENT // 100, ROUTING_NANO_MAX))


def sentence_event(
    mechanism: str, epsilon: float | int | str | Decimal, code_noise: CodeNoise | None = None
) -> PrivacyEvent:
    """Return the event of one document released by `mechanism` at `epsilon`.

    Guarantee priced: pure epsilon for replacing one sentence of one document; the number of sentences is public. A
    mechanism that protects the whole document (`core.mechanisms.sentences.protection`) protects each sentence at that
    epsilon and costs the same.

    `code_noise` is the noise of `sentence_codes` in the pack that is used, at this epsilon
    (`MechanismParameters.code_noise`). Other mechanisms ignore it. With counts one sentence moves two counts by 1, each
    with its own noise of half epsilon. The default is correct for every pack and more expensive.

    Raises: ValueError for an unknown mechanism or an epsilon that is not a positive number in range.
    """
    if mechanism not in SENTENCE_MECHANISMS:
        raise ValueError("unknown sentence mechanism")
    by_counts = mechanism == "sentence_codes" and code_noise is CodeNoise.COUNTS
    return PrivacyEvent(
        mechanism=mechanism,
        kind="two_geometric" if by_counts else SENTENCE_MECHANISMS[mechanism].kind,
        unit=Unit.SENTENCE,
        adjacency=Adjacency.REPLACE_ONE,
        guarantee=Guarantee.PURE_DP,
        epsilon_nano=cost_nano(epsilon),
    )


def words_event(
    mechanism: str, epsilon: float | int | str | Decimal, code_noise: CodeNoise | None = None
) -> PrivacyEvent:
    """Return the event of one document that is split into windows of words (`core.text.segment.windows`).

    Guarantee priced: pure epsilon for replacing one word; the number of words is public. It is an event of the unit
    `token` alone: a sentence may be in several windows, and one of another length shifts all later windows. The
    event's mechanism name differs from that of the release by sentences, whose plans do not admit it.
    `document_selection` protects the whole document with either segmentation, and has one event.
    Raises: as `sentence_event`.
    """
    event = sentence_event(mechanism, epsilon, code_noise)
    if SENTENCE_MECHANISMS[mechanism].protects == "document":
        return event
    return replace(event, mechanism=f"{mechanism}_words", unit=Unit.TOKEN)

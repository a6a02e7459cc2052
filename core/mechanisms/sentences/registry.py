"""The sentence-level mechanisms, one row each, with the price of a release and what it protects.

To add a mechanism, write its class (a `core.mechanisms.sentences.release.SentenceMechanism`) in a file of its own, with
guarantee and proof in the docstring, and add a row.

A release costs epsilon for replacing one entry of a document's unit list. What this guarantees for the text depends on
the origin of the list:

| list | effect of replacing one token of the text | guarantee at epsilon |
| --- | --- | --- |
| sentences that the gateway finds in a text | can change their number, and several of them | a sentence |
| sentences that were sent | changes one entry | a sentence, hence a token of it |
| embeddings that were sent | is not known | an embedding, which represents a sentence |
| windows of words of a text | changes one entry (`core.text.segment.windows`) | a token |

`document_selection` protects the whole document, hence every part of it, whatever the list.

This module does not import torch: the front end prices a request from its description, before any worker receives it
and without the text. A worker loads the classes.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import NANO, cost_nano, epsilon_of
from core.mechanisms.sentences.domain_pack import CodeNoise, DomainPack

if TYPE_CHECKING:
    import torch

    from core.mechanisms.sentences.release import SentenceMechanism


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism.

    kind: the row of the accounting table that prices it (`core.accounting.events`).
    implementation: its class, as `module:class`; built from a domain pack and a device.
    protects: the unit that a release protects at epsilon, whatever the list of sentences is made from.
    """

    kind: str
    implementation: str
    protects: Literal["sentence", "document"] = "sentence"


_PACKAGE = "core.mechanisms.sentences"

# Randomised response is the worst of all pure mechanisms, which makes "pure" right for codes by any noise. The
# exponential mechanism is bounded-range. Permute-and-flip is not, and is charged as Laplace.
SENTENCE_MECHANISMS: dict[str, MechanismRow] = {
    "sentence_codes": MechanismRow("pure", f"{_PACKAGE}.sentence_codes:SentenceCodes"),
    "clipped_cosine": MechanismRow("permute_and_flip", f"{_PACKAGE}.clipped_cosine:ClippedCosine"),
    "deep_candidate": MechanismRow("exponential", f"{_PACKAGE}.deep_candidate:DeepCandidate"),
    "document_selection": MechanismRow("pure", f"{_PACKAGE}.document_selection:DocumentSelection", "document"),
}


def sentence_mechanism(name: str, pack: DomainPack, device: torch.device | str = "cpu") -> SentenceMechanism:
    """Build the mechanism `name` over `pack`, with its public tensors on `device`. Raises ValueError if unknown."""
    if name not in SENTENCE_MECHANISMS:
        raise ValueError("unknown sentence mechanism")
    module, _, class_name = SENTENCE_MECHANISMS[name].implementation.partition(":")
    built: SentenceMechanism = getattr(importlib.import_module(module), class_name)(pack, device)
    return built


ROUTING_PERCENT = 25  # of epsilon: what the choice of a pack costs, at most the next constant
ROUTING_NANO_MAX = NANO
ROUTED_NANO_MIN = 2  # 1 for the choice and 1 for the release


def routing_share(epsilon_nano: int) -> int:
    """Return what the private choice of a domain pack costs of a release at this epsilon (`routing`).

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
    mechanism that protects the whole document (`MechanismRow.protects`) protects each sentence at that
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


Segmentation = Literal["sentences", "words"]
Form = Literal["text", "sentences", "embeddings"]

_SENTENCE, _TOKEN, _DOCUMENT = "sentence", "token", "document"
_NUMBER_OF_SENTENCES = "number of sentences"


@dataclass(frozen=True)
class Protection:
    """What a release protects.

    `unit` and `adjacency` describe the neighbours; `adjacency` is a text. `units` lists every unit for which the
    response guarantees that replacing one is covered by its epsilon. `public` is what neighbours have in common, and
    what the response may therefore show. `count` is the response's name for the number of units, None if that number is
    hidden.
    """

    unit: str
    units: tuple[str, ...]
    adjacency: str
    public: tuple[str, ...]
    count: str | None

    @property
    def facts(self) -> dict[str, Any]:
        """The members of the `privacy` block."""
        return {"unit": self.unit, "units": list(self.units), "adjacency": self.adjacency, "public": list(self.public)}


_FOUND = Protection(
    _SENTENCE,
    (_SENTENCE,),
    "replace one of the sentences that the gateway finds in the text; this covers no single token, since a token can "
    "change how many sentences are found",
    (_NUMBER_OF_SENTENCES,),
    "sentences",
)
_SENT = Protection(
    _SENTENCE,
    (_SENTENCE, _TOKEN),
    "replace one of the sentences that were sent, or one token inside it",
    (_NUMBER_OF_SENTENCES,),
    "sentences",
)
_EMBEDDED = Protection(
    _SENTENCE,
    (_SENTENCE,),
    "replace one of the embeddings that were sent, each of which stands for one sentence",
    (_NUMBER_OF_SENTENCES,),
    "sentences",
)
_WINDOWS = Protection(
    _TOKEN,
    (_TOKEN,),
    "replace one word of the text by any other string without white space",
    ("number of words",),
    "windows",
)
_WHOLE_DOCUMENT = Protection(
    _DOCUMENT, (_DOCUMENT, _SENTENCE, _TOKEN), "replace-one document, of any number of sentences", (), None
)

_OF_FORM: dict[Form, Protection] = {"text": _FOUND, "sentences": _SENT, "embeddings": _EMBEDDED}


def protection(
    mechanism: str, *, forms: Sequence[Form] = ("text",), segmentation: Segmentation = "sentences"
) -> Protection:
    """Return the protection of each document of a release by `mechanism`.

    `forms` are the forms of its documents. If they differ, `units` contains what is guaranteed for every document.
    Raises: ValueError for an unknown mechanism, no document, and windows of words of anything but text.
    """
    return _protection(mechanism, tuple(dict.fromkeys(forms)), segmentation)


@lru_cache(maxsize=256)
def _protection(mechanism: str, forms: tuple[Form, ...], segmentation: Segmentation) -> Protection:
    if mechanism not in SENTENCE_MECHANISMS:
        raise ValueError("unknown sentence mechanism")
    if not forms or (segmentation == "words" and set(forms) != {"text"}):
        raise ValueError("windows of words are made of text")
    if SENTENCE_MECHANISMS[mechanism].protects == "document":
        return _WHOLE_DOCUMENT
    if segmentation == "words":
        return _WINDOWS
    found = [_OF_FORM[form] for form in forms]
    return Protection(
        unit=_SENTENCE,
        units=tuple(unit for unit in found[0].units if all(unit in each.units for each in found)),
        adjacency="; ".join(each.adjacency for each in found),
        public=found[0].public,
        count=found[0].count,
    )

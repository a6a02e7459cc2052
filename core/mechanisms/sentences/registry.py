"""The sentence-level mechanisms, one row each. Light: the front end reads the table, a worker loads the classes.

To add a mechanism, write its class (a `core.mechanisms.sentences.release.SentenceMechanism`) in a file of its own, with
guarantee and proof in the docstring, and add a row.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

    from core.mechanisms.sentences.domain_pack import DomainPack
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

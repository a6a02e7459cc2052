"""The sentence-level mechanisms by name."""

from __future__ import annotations

from collections.abc import Callable

import torch

from core.mechanisms.clipped_cosine import ClippedCosine
from core.mechanisms.depth import DeepCandidate
from core.mechanisms.document_selection import DocumentSelection
from core.mechanisms.domain_pack import DomainPack
from core.mechanisms.release import SentenceMechanism
from core.mechanisms.sentence_codes import SentenceCodes

_CLASSES: dict[str, Callable[[DomainPack, torch.device | str], SentenceMechanism]] = {
    cls.name: cls for cls in (SentenceCodes, ClippedCosine, DeepCandidate, DocumentSelection)
}


def sentence_mechanism(name: str, pack: DomainPack, device: torch.device | str = "cpu") -> SentenceMechanism:
    """The mechanism called `name` over `pack`, its public tensors on `device`. Raises ValueError if unknown."""
    if name not in _CLASSES:
        raise ValueError("unknown sentence mechanism")
    return _CLASSES[name](pack, device)

"""The sentence-level mechanisms by name."""

from __future__ import annotations

import torch

from core.mechanisms.clipped_cosine import ClippedCosine
from core.mechanisms.depth import DeepCandidate
from core.mechanisms.domain_pack import DomainPack
from core.mechanisms.release import SentenceMechanism
from core.mechanisms.sentence_codes import SentenceCodes

_CLASSES: dict[str, type[SentenceCodes] | type[ClippedCosine] | type[DeepCandidate]] = {
    cls.name: cls for cls in (SentenceCodes, ClippedCosine, DeepCandidate)
}


def sentence_mechanism(name: str, pack: DomainPack, device: torch.device | str = "cpu") -> SentenceMechanism:
    """The mechanism called `name` over `pack`, its public tensors on `device`. Raises ValueError if unknown."""
    if name not in _CLASSES:
        raise ValueError("unknown sentence mechanism")
    return _CLASSES[name](pack, device)

"""The sentence-level mechanisms by name."""

from __future__ import annotations

from collections.abc import Callable

import torch

from core.mechanisms.sentences.clipped_cosine import ClippedCosine
from core.mechanisms.sentences.deep_candidate import DeepCandidate
from core.mechanisms.sentences.document_selection import DocumentSelection
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.release import SentenceMechanism
from core.mechanisms.sentences.sentence_codes import SentenceCodes

_CLASSES: dict[str, Callable[[DomainPack, torch.device | str], SentenceMechanism]] = {
    cls.name: cls for cls in (SentenceCodes, ClippedCosine, DeepCandidate, DocumentSelection)
}


def sentence_mechanism(name: str, pack: DomainPack, device: torch.device | str = "cpu") -> SentenceMechanism:
    """Return the mechanism `name` for `pack`, with its public tensors on `device`. Raises ValueError if unknown."""
    if name not in _CLASSES:
        raise ValueError("unknown sentence mechanism")
    return _CLASSES[name](pack, device)

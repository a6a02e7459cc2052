"""A toy sentence mechanism: it releases a candidate of the pack that it draws without looking at the document.

Guarantee: pure epsilon-DP for every epsilon, for replacing one sentence of a document, because the release is
independent of the document. The number of sentences is public. Source: none is needed.
"""

from collections.abc import Sequence

import torch

from core.mechanisms.samplers.exact import uniform_indices
from core.mechanisms.sentences.release import FloatArray, SentenceMechanism


class ToyUniform(SentenceMechanism):
    """The module docstring has guarantee and proof."""

    name = "toy_uniform"
    space = "encoder"

    def _release(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> FloatArray:
        candidates: FloatArray = self.pack.candidates
        return candidates[uniform_indices(len(documents), len(candidates))]

    def self_check(self) -> bool:
        """Always: the release uses no arithmetic of the device."""
        return True

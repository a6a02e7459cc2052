"""A classifier: an encoder, the mean of its states, one linear layer. The logits of a row depend on that row alone.

Pooled vectors are scaled to length sqrt(width), row by row, so that the head's gradients have one size for every
encoder. If the two texts of a pair are read separately, |u - v| and u * v are appended to their own vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from gpu_workers.finetune.base import Base


@dataclass(frozen=True)
class Part:
    """Ids, mask and types of the texts that a batch reads together, each `[rows, length]`."""

    ids: torch.Tensor
    mask: torch.Tensor
    types: torch.Tensor | None


class Classifier(nn.Module):
    """`head` starts at zero, so the first predictions are uniform."""

    def __init__(self, base: Base, *, labels: int, pairs: bool) -> None:
        super().__init__()
        self.backbone: nn.Module = base.model
        width = int(base.model.config.hidden_size)
        self.width = width
        self.head = nn.Linear(4 * width if pairs and not base.joint else width, labels)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.head.to(next(base.model.parameters()).device)

    def forward(self, parts: Sequence[Part]) -> torch.Tensor:
        """Logits `[rows, labels]` in float32."""
        pooled = [self._pooled(part) for part in parts]
        if len(pooled) == 2:
            first, second = pooled
            pooled = [torch.cat([first, second, (first - second).abs(), first * second], dim=1)]
        logits: torch.Tensor = self.head(pooled[0])
        return logits

    def _pooled(self, part: Part) -> torch.Tensor:
        # A 2-D mask would be dropped in a batch without padding, and another kernel would be chosen.
        wide = part.mask[:, None, None, :].expand(-1, 1, part.mask.shape[1], -1)
        types = {} if part.types is None else {"token_type_ids": part.types}
        states = self.backbone(input_ids=part.ids, attention_mask=wide, **types).last_hidden_state.float()
        weights = part.mask[:, :, None]
        mean = (states * weights).sum(dim=1) / weights.sum(dim=1)
        return nn.functional.layer_norm(mean, (self.width,))

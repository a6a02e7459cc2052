"""A BERT forward pass over sentences laid end to end, instead of one padded rectangle for each length.

Everything in a BERT layer but attention treats tokens one by one, so all sentences of a batch go through the linear
layers as one matrix `[tokens, d]`; attention runs once for each group of sentences of one padded length. On
processors most of a small batch's time goes into reading the weights, and one pass then serves all lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

# (ids `[sentences, length]`, mask `[sentences, length]`): sentences of one padded length
Group = tuple[torch.Tensor, torch.Tensor]


class PackedBert:
    """The layers of a transformers `BertModel`, used in place."""

    @staticmethod
    def supports(model: Any) -> bool:
        """Whether the model is a plain BERT encoder with absolute positions."""
        config = model.config
        return (
            type(model).__name__ == "BertModel"
            and not config.is_decoder
            and not config.add_cross_attention
            and getattr(config, "position_embedding_type", "absolute") == "absolute"
        )

    def __init__(self, model: Any) -> None:
        self._embeddings = model.embeddings
        self._layers = list(model.encoder.layer)
        self._heads = int(model.config.num_attention_heads)
        self._query_key_value = []
        for layer in self._layers:
            own = layer.attention.self
            three = (own.query, own.key, own.value)
            self._query_key_value.append(
                (torch.cat([part.weight for part in three]), torch.cat([part.bias for part in three]))
            )

    def __call__(self, groups: Sequence[Group]) -> list[torch.Tensor]:
        """Last hidden states of each group, `[sentences, length, d]`."""
        table = self._embeddings
        ids = torch.cat([ids.reshape(-1) for ids, _ in groups])
        positions = torch.cat([torch.arange(ids.shape[1]).repeat(len(ids)) for ids, _ in groups])
        hidden = table.word_embeddings(ids) + table.token_type_embeddings.weight[0]
        hidden = table.LayerNorm(hidden + table.position_embeddings(positions))
        for layer, (weight, bias) in zip(self._layers, self._query_key_value, strict=True):
            attended = self._attend(linear(hidden, weight, bias), groups)
            output = layer.attention.output
            hidden = output.LayerNorm(output.dense(attended) + hidden)
            wide = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(hidden))
            hidden = layer.output.LayerNorm(layer.output.dense(wide) + hidden)
        blocks = torch.split(hidden, [ids.numel() for ids, _ in groups])
        return [block.view(*ids.shape, -1) for block, (ids, _) in zip(blocks, groups, strict=True)]

    def _attend(self, packed: torch.Tensor, groups: Sequence[Group]) -> torch.Tensor:
        width = packed.shape[1] // 3
        attended = []
        blocks = torch.split(packed, [ids.numel() for ids, _ in groups])
        for block, (ids, mask) in zip(blocks, groups, strict=True):
            heads = block.view(*ids.shape, 3, self._heads, width // self._heads)
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            # the mask is passed even where nothing is padded: no kernel is chosen by what a batch looks like
            seen = mask[:, None, None, :].expand(-1, 1, ids.shape[1], -1)
            out = scaled_dot_product_attention(query, key, value, attn_mask=seen)
            attended.append(out.transpose(1, 2).reshape(ids.numel(), width))
        return torch.cat(attended)

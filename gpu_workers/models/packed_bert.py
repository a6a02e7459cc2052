"""A BERT forward pass over concatenated sentences, instead of one padded rectangle for each length.

All operations in a BERT layer except attention treat tokens one by one. All sentences of a batch therefore pass through
the linear layers as one matrix `[tokens, d]`, and attention runs once for each group of sentences of one padded length.
On CPUs, a small batch spends most of its time reading the weights, and one pass then serves all lengths.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.nn.functional import embedding, gelu, layer_norm, linear, pad, scaled_dot_product_attention

# (ids `[sentences, length]`, mask `[sentences, length]`): sentences of one padded length
Group = tuple[torch.Tensor, torch.Tensor]

_Pair = tuple[torch.Tensor, torch.Tensor]  # weight and bias
_Linear = Callable[[torch.Tensor], torch.Tensor]
LinearOf = Callable[[torch.Tensor, torch.Tensor], _Linear]  # weight and bias to the layer


@dataclass(frozen=True)
class Layer:
    query_key_value: Any  # a `_Linear`, or what `linear_of` makes
    attention_output: Any
    attention_norm: _Pair
    intermediate: Any
    output: Any
    output_norm: _Pair


class Dense:
    """A linear layer: one product for all rows."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        return linear(rows, self.weight, self.bias)


class TiledDense(Dense):
    """A linear layer whose products all have the same number of rows, whatever the number of its inputs.

    The number of rows selects the kernel of a library. The last product is padded with zeros.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, *, rows: int) -> None:
        super().__init__(weight, bias)
        self._rows = rows

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        tiles = list(torch.split(rows, self._rows))
        missing = self._rows - len(tiles[-1])
        if missing:
            tiles[-1] = pad(tiles[-1], (0, 0, 0, missing))
        products = [super(TiledDense, self).__call__(tile) for tile in tiles]
        return torch.cat(products)[: len(rows)]


class PackedBert:
    """A plain BERT encoder, built from its weights alone."""

    @staticmethod
    def supports(config: Mapping[str, Any]) -> bool:
        """Whether a model's configuration is that of a plain BERT encoder with absolute positions."""
        return (
            config["architectures"] == ["BertModel"]
            and config["hidden_act"] == "gelu"
            and config.get("position_embedding_type", "absolute") == "absolute"
            and not config.get("is_decoder", False)
            and not config.get("add_cross_attention", False)
        )

    def __init__(
        self, weights: Mapping[str, torch.Tensor], config: Mapping[str, Any], linear_of: LinearOf = Dense
    ) -> None:
        """`weights` have the names of a transformers `BertModel` and one dtype. `config` must be supported.

        `linear_of` builds a linear layer from its weight and bias.
        """

        def pair(name: str) -> _Pair:
            return weights[f"{name}.weight"], weights[f"{name}.bias"]

        def layer(name: str) -> Layer:
            three = [pair(f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
            together = torch.cat([weight for weight, _ in three]), torch.cat([bias for _, bias in three])
            return Layer(
                query_key_value=linear_of(*together),
                attention_output=linear_of(*pair(f"{name}.attention.output.dense")),
                attention_norm=pair(f"{name}.attention.output.LayerNorm"),
                intermediate=linear_of(*pair(f"{name}.intermediate.dense")),
                output=linear_of(*pair(f"{name}.output.dense")),
                output_norm=pair(f"{name}.output.LayerNorm"),
            )

        self.linear_of = linear_of
        self._words = weights["embeddings.word_embeddings.weight"]
        self._positions = weights["embeddings.position_embeddings.weight"]
        self._type = weights["embeddings.token_type_embeddings.weight"][0]
        self.norm = pair("embeddings.LayerNorm")
        self.layers = [layer(f"encoder.layer.{i}") for i in range(config["num_hidden_layers"])]
        self._inner = len(weights["encoder.layer.0.intermediate.dense.bias"])
        self.heads = int(config["num_attention_heads"])
        self.eps = float(config["layer_norm_eps"])

    @property
    def width(self) -> int:
        """d, the size of a hidden state."""
        return self._words.shape[1]

    @property
    def linear_shapes(self) -> list[tuple[int, int]]:
        """(out, in) of the linear layers of one layer; all layers have the same shapes."""
        return [
            (3 * self.width, self.width),
            (self.width, self.width),
            (self._inner, self.width),
            (self.width, self._inner),
        ]

    @property
    def dtype(self) -> torch.dtype:
        return self._words.dtype

    def first_layer(self) -> PackedBert:
        """The model cut after its first layer. It uses the kernels and shapes of every layer and takes much less
        time."""
        shallow = copy.copy(self)
        shallow.layers = self.layers[:1]
        return shallow

    def tiled(self, rows: int) -> PackedBert:
        """The model with linear layers of one shape (`TiledDense`). Its layers must be `Dense`."""
        own = copy.copy(self)
        own.linear_of = partial(TiledDense, rows=rows)

        def tiled(layer: Dense) -> _Linear:
            return own.linear_of(layer.weight, layer.bias)

        own.layers = [
            replace(
                layer,
                query_key_value=tiled(layer.query_key_value),
                attention_output=tiled(layer.attention_output),
                intermediate=tiled(layer.intermediate),
                output=tiled(layer.output),
            )
            for layer in self.layers
        ]
        return own

    def __call__(self, groups: Sequence[Group], added: torch.Tensor | None = None) -> list[torch.Tensor]:
        """Return the last hidden states of each group, `[sentences, length, d]`.

        `added`: `[tokens, d]`, added to the word embeddings of the concatenated tokens of all groups.
        """
        hidden = self.normalised(self.embedded(groups, added), self.norm)
        for layer in self.layers:
            attended = self.attend(layer.query_key_value(hidden), groups)
            hidden = self.normalised(layer.attention_output(attended) + hidden, layer.attention_norm)
            wide = gelu(layer.intermediate(hidden))
            hidden = self.normalised(layer.output(wide) + hidden, layer.output_norm)
        return self.blocks(hidden, groups)

    def embedded(self, groups: Sequence[Group], added: torch.Tensor | None) -> torch.Tensor:
        """Return the sum of the embeddings of the concatenated tokens, `[tokens, d]`, before the first norm."""
        ids = torch.cat([ids.reshape(-1) for ids, _ in groups])
        positions = torch.cat([torch.arange(ids.shape[1], device=ids.device).repeat(len(ids)) for ids, _ in groups])
        hidden = embedding(ids, self._words) + self._type
        if added is not None:
            hidden = hidden + added
        return hidden + embedding(positions, self._positions)

    @staticmethod
    def blocks(hidden: torch.Tensor, groups: Sequence[Group]) -> list[torch.Tensor]:
        """Return the rows of `[tokens, d]` that belong to each group, `[sentences, length, d]`."""
        blocks = torch.split(hidden, [ids.numel() for ids, _ in groups])
        return [block.view(*ids.shape, -1) for block, (ids, _) in zip(blocks, groups, strict=True)]

    def normalised(self, hidden: torch.Tensor, norm: _Pair) -> torch.Tensor:
        return layer_norm(hidden, hidden.shape[1:], *norm, eps=self.eps)

    def attend(self, packed: torch.Tensor, groups: Sequence[Group]) -> torch.Tensor:
        """Compute attention inside each sentence: queries, keys and values `[tokens, 3 d]` to `[tokens, d]`."""
        width = packed.shape[1] // 3
        attended = []
        blocks = torch.split(packed, [ids.numel() for ids, _ in groups])
        for block, (ids, mask) in zip(blocks, groups, strict=True):
            heads = block.view(*ids.shape, 3, self.heads, width // self.heads)
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            # Pass the mask even without padding, so that the choice of a kernel does not depend on the batch's content.
            seen = mask[:, None, None, :].expand(-1, 1, ids.shape[1], -1)
            out = scaled_dot_product_attention(query, key, value, attn_mask=seen)
            attended.append(out.transpose(1, 2).reshape(ids.numel(), width))
        return torch.cat(attended)

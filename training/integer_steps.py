"""Round the linear layers of a BERT encoder, for `gpu_workers.models.integer.bert.IntegerBert`.

The layers are rounded in their order (`training.integer_rounding`): the inputs of each are those that the
roundings before it leave.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any

import torch
from torch.nn.functional import gelu

from gpu_workers.models.integer.layers import POSITIVE, Steps
from gpu_workers.models.packed_bert import Dense, Group, PackedBert
from training.integer_rounding import fitted

_COPIES = {"query_key_value": 16, "attention_output": 0, "intermediate": 16, "output": 32}
_SMALLEST = 1e-6

_Pair = tuple[torch.Tensor, torch.Tensor]  # numbers in floating point, and those after the roundings before


class Build:
    """Fills `arrays`, the content of the file."""

    def __init__(
        self, bert: PackedBert, tokens: Sequence[Sequence[int]], rows: int, added: Sequence[torch.Tensor] = ()
    ) -> None:
        """`tokens`: the ids of each text. `rows`: of each layer's inputs, how many a text contributes on average.
        `added`: for each text, float32 `[tokens, width]`, what is added to the embeddings; by default, nothing."""
        self._bert = bert
        order = sorted(range(len(tokens)), key=lambda place: len(tokens[place]))
        self._texts = _groups([tokens[place] for place in order])
        self._added = torch.cat([added[place] for place in order]) if added else None
        self._kept = _some_rows(self._texts, rows)
        self.arrays: dict[str, Any] = {}

    @torch.inference_mode()
    def run(self) -> None:
        bert = self._bert
        embedded = bert.embedded(self._texts, self._added)
        hidden = self._normed((embedded, embedded), bert.norm)
        for number, layer in enumerate(bert.layers):
            packed = self._fit(f"{number}.query_key_value", layer.query_key_value, hidden)
            self.arrays[f"{number}.largest"] = packed[0].abs().amax(dim=0).clamp_min(_SMALLEST).numpy()
            attended = _both(lambda own: bert.attend(own, self._texts), packed)
            added = self._fit(f"{number}.attention_output", layer.attention_output, attended)
            hidden = self._normed(_both(torch.add, added, hidden), layer.attention_norm)
            wide = _both(gelu, self._fit(f"{number}.intermediate", layer.intermediate, hidden))
            added = self._fit(f"{number}.output", layer.output, wide)
            hidden = self._normed(_both(torch.add, added, hidden), layer.output_norm)

    def _fit(self, name: str, dense: Dense, inputs: _Pair) -> _Pair:
        kind = name.partition(".")[2]
        exact, rounded = _both(lambda own: own[self._kept], inputs)
        own, error = fitted(dense.weight, dense.bias, exact, rounded, _COPIES[kind], positive=kind in POSITIVE)
        self.arrays |= {f"{name}.{each.name}": getattr(own.steps, each.name) for each in fields(Steps)}
        print(f"{name}: relative error {error:.1e}", flush=True)
        return dense(inputs[0]), own(inputs[1])

    def _normed(self, hidden: _Pair, norm: tuple[torch.Tensor, torch.Tensor]) -> _Pair:
        return _both(lambda own: self._bert.normalised(own, norm), hidden)


def _both(function: Callable[..., torch.Tensor], *pairs: _Pair) -> _Pair:
    return function(*(pair[0] for pair in pairs)), function(*(pair[1] for pair in pairs))


def _groups(tokens: Sequence[Sequence[int]]) -> list[Group]:
    """Texts of one length together. `tokens`: in order of length."""
    alike = [list(own) for _, own in groupby(tokens, key=len)]
    return [(torch.tensor(own), torch.ones((len(own), len(own[0])), dtype=torch.bool)) for own in alike]


def _some_rows(texts: Sequence[Group], rows: int) -> torch.Tensor:
    """The indices of `rows` inputs for each text, of the texts of one length together."""
    generator = torch.Generator().manual_seed(0)
    chosen, start = [], 0
    for ids, _ in texts:
        count = ids.numel()
        chosen.append(start + torch.randperm(count, generator=generator)[: rows * len(ids)])
        start += count
    return torch.cat(chosen)

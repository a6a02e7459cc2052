"""Choose how the integer encoder rounds the inputs and weights of its layers, on public texts.

    python -m gpu_workers.offline.integer_encoder --data DATA [--out gpu_workers/adapters/integer_encoder.safetensors]

The texts are the sentences of `gpu_workers.offline.vector_pack`, and short ones. The build treats the linear layers in
their order (`gpu_workers.offline.integer_rounding`): the inputs of each are those that the roundings before it leave.
It ends with the cosines to float32 on sentences that it has not used.
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import gelu

from core.text.vocabulary import ranked
from gpu_workers.models.encoder import Encoder, bundled_fingerprint
from gpu_workers.models.encoder_model import bundled_weights
from gpu_workers.models.integer.encoder import IntegerEncoder
from gpu_workers.models.integer.layers import FORMAT, POSITIVE, STEPS, Steps
from gpu_workers.models.packed_bert import Dense, Group, PackedBert
from gpu_workers.models.tensor_file import write_tensors
from gpu_workers.offline.integer_rounding import fitted
from gpu_workers.offline.vector_pack import LICENCE, SOURCE, corpora

_ENDS = ("", ".", "!", "!!!", "?", "...")
_REPEATED = (2, 5, 20, 80, 300)
_MARKS = "-=*_.|#>~+!?"
_ROWS_PER_SENTENCE = 4  # of the inputs of each layer
_COPIES = {"query_key_value": 16, "attention_output": 0, "intermediate": 16, "output": 32}
_SMALLEST = 1e-6

_Pair = tuple[torch.Tensor, torch.Tensor]


def short_texts(count: int) -> list[str]:
    """Frequent words, alone and with what ends a sentence, some of them repeated, and lines of marks. Nothing averages
    the errors of such texts, and their hidden states are larger than those of others."""
    words, _ = ranked()
    alone = [word + end for word, end in zip(words[:count], cycle(_ENDS), strict=False)]
    repeated = [f"{word} " * times for word, times in zip(words[: count // 10], cycle(_REPEATED), strict=False)]
    lines = [f"{start}{mark * times} {mark}" for start in ("", "|   ") for mark in _MARKS for times in _REPEATED]
    return alone + repeated + lines


def sentences(data: Path, count: int) -> tuple[list[str], list[str]]:
    """Two lists of public sentences, of as many from each corpus, ordered by the checksum of the text."""
    found = corpora(data, 2 * count)
    ordered = [sorted(texts, key=lambda text: zlib.crc32(text.encode())) for texts in found.values()]
    share = count // len(ordered)
    return (
        list(chain.from_iterable(texts[:share] for texts in ordered)),
        list(chain.from_iterable(texts[share : 2 * share] for texts in ordered)),
    )


class _Build:
    """Rounds one layer after the other. `_Pair`: numbers in floating point, and those after the roundings before."""

    def __init__(self, tokens: Sequence[Sequence[int]]) -> None:
        weights, config = bundled_weights()
        self._bert = PackedBert(weights, config)
        self._texts = groups(tokens)
        self._kept = some_rows(self._texts)
        self.arrays: dict[str, Any] = {}

    @torch.inference_mode()
    def run(self) -> None:
        bert = self._bert
        embedded = bert.embedded(self._texts, None)
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


def groups(tokens: Sequence[Sequence[int]]) -> list[Group]:
    """Sentences of one length together."""
    by_length: defaultdict[int, list[Sequence[int]]] = defaultdict(list)
    for ids in tokens:
        by_length[len(ids)].append(ids)
    return [
        (torch.tensor(own), torch.ones((len(own), length), dtype=torch.bool))
        for length, own in sorted(by_length.items())
    ]


def some_rows(texts: Sequence[Group]) -> torch.Tensor:
    """The indices of as many rows of each group as `_ROWS_PER_SENTENCE` asks for."""
    generator = torch.Generator().manual_seed(0)
    chosen, start = [], 0
    for ids, _ in texts:
        count = ids.numel()
        chosen.append(start + torch.randperm(count, generator=generator)[: _ROWS_PER_SENTENCE * len(ids)])
        start += count
    return torch.cat(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=STEPS)
    parser.add_argument("--sentences", type=int, default=2_000)
    parser.add_argument("--short", type=int, default=1_500)
    options = parser.parse_args()
    torch.set_num_threads(1)  # the same sums on every machine of a kind
    exact = Encoder(dtype=torch.float32)
    used, unused = sentences(options.data, options.sentences)
    texts = used + short_texts(options.short)
    build = _Build(exact.tokenise(texts))
    build.run()
    facts = {
        "encoder_fingerprint": bundled_fingerprint(),
        "layers": bundled_weights()[1]["num_hidden_layers"],
        "texts": len(texts),
        "source": SOURCE,
        "licence": LICENCE.replace("The pack holds vectors", "The file holds ranges"),
    }
    write_tensors(options.out, FORMAT, facts, build.arrays)
    vectors = IntegerEncoder(options.out).encode(unused)
    cosines = (vectors.astype(np.float64) * exact.encode(unused)).sum(axis=1)
    print(f"{len(unused)} other sentences: cosine {cosines.mean():.5f} on average, {cosines.min():.4f} at worst")


if __name__ == "__main__":
    main()

"""Choose how the inputs of the integer encoder's layers are held, on public texts.

    python -m gpu_workers.offline.integer_encoder --data DATA [--out gpu_workers/adapters/integer_encoder.safetensors]

The float32 encoder reads the sentences of `gpu_workers.offline.vector_pack`, and short texts, one by one. For each
linear layer, the step of a component is its range to a power, times the widest range to the rest of 1. The power, and
how much of the ranges is covered, are those with the least error of the layer's outputs. The components that are held
more than once are those that lower the squares of the outputs' units most, one after the other. The build ends with the
cosines to float32 on sentences that it has not used.
"""

from __future__ import annotations

import argparse
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from itertools import chain, cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from core.text.vocabulary import ranked
from gpu_workers.domains.public_text import show
from gpu_workers.models.encoder import Encoder, bundled_fingerprint
from gpu_workers.models.encoder_model import bundled_weights
from gpu_workers.models.integer.encoder import IntegerEncoder
from gpu_workers.models.integer.layers import FORMAT, LINEAR, STEPS, Columns, Steps, rounded
from gpu_workers.models.packed_bert import PackedBert
from gpu_workers.models.tensor_file import write_tensors
from gpu_workers.offline.vector_pack import LICENCE, SOURCE, corpora

_POWERS = (0.0, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)
_COVERED = (1.0, 0.9, 0.8)
_ENDS = ("", ".", "!", "!!!", "?", "...")
_REPEATED = (2, 5, 20, 80, 300)
_MARKS = "-=*_.|#>~+!?"
_ROWS_PER_SENTENCE = 4  # of the inputs of each layer
_SMALLEST = 1e-6
_LOW, _HIGH = -128, 127


class _Recorded:
    """A linear layer in float32 that keeps the ranges of its inputs and outputs, and some of the inputs."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        self.weight, self.bias = weight, bias
        self.low = torch.full((weight.shape[1],), torch.inf)
        self.high = -self.low
        self.largest = torch.zeros(weight.shape[0])
        self.rows: list[torch.Tensor] = []

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        self.low = torch.minimum(self.low, inputs.amin(dim=0))
        self.high = torch.maximum(self.high, inputs.amax(dim=0))
        self.rows.append(inputs[:: max(1, len(inputs) // _ROWS_PER_SENTENCE)].clone())
        out = torch.nn.functional.linear(inputs, self.weight, self.bias)
        self.largest = torch.maximum(self.largest, out.abs().amax(dim=0))
        return out

    def steps(self, copies: int) -> tuple[Steps, float]:
        """The steps with the least error of the outputs, and that error: the mean of a row's squared error over its
        squares, to which the median of all rows is added, so that neither the largest nor the smallest rows decide."""
        inputs = torch.cat(self.rows)
        exact = inputs @ self.weight.T
        tried = [(*self._with(inputs, exact, copies, *how), how) for how in product(_POWERS, _COVERED)]
        error, steps, _ = min(tried, key=lambda each: each[0])
        return steps, error

    def _with(
        self, inputs: torch.Tensor, exact: torch.Tensor, count: int, power: float, covered: float
    ) -> tuple[float, Steps]:
        width = ((self.high - self.low) * covered).clamp_min(_SMALLEST)
        step = width.max() ** (1 - power) * width**power / (_HIGH - _LOW)
        middle = ((self.low + self.high) / 2 / step).round()
        held = ((inputs / step).round() - middle).clamp(_LOW, _HIGH)
        scaled = (self.weight * step).double().numpy()
        copies = copied(scaled, count)
        whole, unit = rounded(scaled, copies)
        lacking = exact - (held + middle) @ torch.from_numpy((whole * unit[:, None]).T).float()
        squares = exact.square().sum(dim=1)
        shares = (1 / (squares + squares.median()))[:, None]
        shift = (lacking * shares).sum(dim=0) / shares.sum()
        error = ((lacking - shift).square() * shares).sum(dim=1).mean()
        return float(error), Steps(step.numpy(), middle.numpy(), copies, shift.numpy())


def copied(weight: npt.NDArray[np.float64], count: int) -> Columns:
    """The components of `weight` `[outer, inner]` to hold more than once, int64 `[count]`."""
    sizes = np.abs(weight)
    outputs = np.arange(len(sizes))
    counts = np.ones(sizes.shape[1])
    chosen = []
    for _ in range(count):
        shares = sizes / counts
        largest = shares.argmax(axis=1)
        before = shares[outputs, largest]
        shares[outputs, largest] = sizes[outputs, largest] / (counts[largest] + 1)
        gain = np.bincount(largest, before**2 - shares.max(axis=1) ** 2)
        chosen.append(int(gain.argmax()))
        counts[chosen[-1]] += 1
    return np.array(chosen, dtype=np.int64)


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


@torch.inference_mode()
def record(tokens: Sequence[Sequence[int]]) -> PackedBert:
    weights, config = bundled_weights()
    bert = PackedBert(weights, config, _Recorded)
    for done, ids in enumerate(tokens):
        if done % 100 == 0:
            show(f"{done} of {len(tokens)} sentences")
        bert([(torch.tensor([ids]), torch.ones((1, len(ids)), dtype=torch.bool))])
    return bert


def save(bert: PackedBert, path: Path, used: int, copies: int) -> None:
    arrays: dict[str, Any] = {}
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for number, layer in enumerate(bert.layers):
        for name in LINEAR:
            steps, error = getattr(layer, name).steps(copies)
            prefix = f"{number}.{name}"
            arrays |= {f"{prefix}.{each.name}": getattr(steps, each.name) for each in fields(steps)}
            errors[name].append(error)
        arrays[f"{number}.largest"] = layer.query_key_value.largest.numpy()
    facts = {
        "encoder_fingerprint": bundled_fingerprint(),
        "layers": len(bert.layers),
        "texts": used,
        "copies": copies,
        "source": SOURCE,
        "licence": LICENCE.replace("The pack holds vectors", "The file holds ranges"),
    }
    write_tensors(path, FORMAT, facts, arrays)
    for name, own in errors.items():
        print(f"{name}: relative error " + ", ".join(f"{error:.1e}" for error in own))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=STEPS)
    parser.add_argument("--sentences", type=int, default=2_000)
    parser.add_argument("--short", type=int, default=1_500)
    parser.add_argument("--copies", type=int, default=32, help="components of each input that are held once more")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the same sums on every machine of a kind
    exact = Encoder(dtype=torch.float32)
    used, unused = sentences(options.data, options.sentences)
    texts = used + short_texts(options.short)
    save(record(exact.tokenise(texts)), options.out, len(texts), options.copies)
    vectors = IntegerEncoder(options.out).encode(unused)
    cosines = (vectors.astype(np.float64) * exact.encode(unused)).sum(axis=1)
    print(f"{len(unused)} other sentences: cosine {cosines.mean():.5f} on average, {cosines.min():.4f} at worst")


if __name__ == "__main__":
    main()

"""Test whether a sentence's vector depends on the other sentences of its batch, on the device that will serve.

A kernel is chosen by the type, shape and alignment of its operands and by the number of threads, not by their values.
It is therefore enough to run every shape that can occur in service, with the same number of threads, and to compare
results bit by bit. The batcher of `gpu_workers.models.encoder` bounds the shapes.

Packed batches have up to T tokens, and every sentence is padded to a multiple of 8 (`STEP`). `packed_is_independent`
runs them and compares with runs of 8 tokens or of one sentence alone:

* operations on single tokens (linear layers, norms, GELU): T / 8 shapes, of 8 to T tokens;
* attention and pooling: one shape for each padded length L and each number of sentences up to T / L.

With T = 512 and L <= 256 these are 64 and 248 shapes. One layer is run, because the others repeat its shapes. bfloat16
hides the order in which a sum was computed: of the bundled model's rows, one in 500 shows it after a layer. The check
therefore also runs linear layers and attention on numbers whose products cancel. The result of such a sum is its
rounding error, which is visible in every row.

Batches of one padded length have few shapes. `batches_are_independent` runs each shape through the whole model, with
each sentence at an even and at an odd position, and with other companions each time.

`mixes_are_independent` adds batches of several lengths, partly filled, through the whole model.

Two devices may compute different vectors, each independent of the batch. Which of them computes a document may depend
on the lengths of others, so all workers of a role must compute alike: `arithmetic_of` tells them apart.

No check covers: operands with an alignment that the checks do not use (torch aligns to 64 bytes, and a row of a batch
begins at a multiple of 8 tokens), floating-point modes of the processor that change later, and a kernel that is chosen
by values, or at random and rarely.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from gpu_workers.models.packed_bert import PackedBert

STEP = 8  # padded lengths are multiples of it
_LARGE = 2.0**18  # factor of the scores: their rounding errors then change a softmax by about a percent
_MIXED_SENTENCES = 12
_MIXED_SIZES = (3, 30)

Sentence = list[int]
Encode = Callable[[Sequence[Sequence[int]]], npt.NDArray[np.float32]]  # token ids to vectors `[n, d]`
Pool = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # states `[n, length, d]`, mask `[n, length]` to `[n, d]`


class Sentences:
    """Draws sentences of public token ids, the same ones each time."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = np.array(ids)
        self._random = np.random.default_rng(0)

    def of(self, length: int, count: int) -> list[Sentence]:
        """`count` sentences whose padded length is `length`."""
        sizes = self._random.integers(length - STEP + 1, length + 1, count)
        return [self._random.choice(self._ids, size).tolist() for size in sizes]

    def mixed(self, lengths: Sequence[int], count: int) -> list[Sentence]:
        """`count` sentences of several lengths: most of them short, one of the longest length."""
        places = (len(lengths) * self._random.random(count) ** 3).astype(int)
        places[0] = len(lengths) - 1
        return [self.of(lengths[place], 1)[0] for place in places]

    def order(self, known: int, count: int) -> npt.NDArray[np.int64]:
        return self._random.integers(0, known, count)


@torch.inference_mode()
def packed_is_independent(
    bert: PackedBert, pool: Pool, sentences: Sentences, *, lengths: Sequence[int], tokens_max: int
) -> bool:
    """Whether every shape of a packed batch treats rows alike (see the module docstring)."""
    return (
        all(_linear_is_independent(bert, out, inner, tokens_max) for out, inner in bert.linear_shapes)
        and _layer_is_independent(bert.first_layer(), sentences, tokens_max)
        and _attention_is_independent(bert, pool, lengths, tokens_max)
    )


def _linear_is_independent(bert: PackedBert, out: int, inner: int, tokens_max: int) -> bool:
    """Whether a linear layer of this size treats rows alike, tested with rows whose products cancel."""
    generator = torch.Generator().manual_seed(out)
    half = torch.randn((out, inner // 2), generator=generator)
    rows = torch.randn((tokens_max, inner // 2), generator=generator)
    other = torch.randperm(inner // 2, generator=generator)
    weight = torch.cat([half, half[:, other]], dim=1).to(bert.dtype)
    layer = bert.linear_of(weight, torch.zeros(out, dtype=bert.dtype))
    cancelling = torch.cat([rows, -rows[:, other]], dim=1).to(bert.dtype)
    alone = torch.cat([layer(part) for part in torch.split(cancelling, STEP)])
    return all(torch.equal(layer(cancelling[:count]), alone[:count]) for count in range(STEP, tokens_max + 1, STEP))


def _layer_is_independent(layer: PackedBert, sentences: Sentences, tokens_max: int) -> bool:
    most = tokens_max // STEP
    ids = torch.zeros((most, STEP), dtype=torch.int64)
    mask = torch.zeros((most, STEP), dtype=torch.bool)
    for row, own in enumerate(sentences.of(STEP, most)):
        ids[row, : len(own)] = torch.tensor(own)
        mask[row, : len(own)] = True

    def states(rows: slice) -> torch.Tensor:
        return layer([(ids[rows], mask[rows])])[0]

    alone = torch.cat([states(slice(row, row + 1)) for row in range(most)])
    return all(torch.equal(states(slice(count)), alone[:count]) for count in range(2, most + 1))


def _attention_is_independent(bert: PackedBert, pool: Pool, lengths: Sequence[int], tokens_max: int) -> bool:
    """Whether attention and pooling treat sentences alike, tested with numbers whose sums of products cancel.

    Query and key cancel, so that a score consists of its rounding error. In every other head, the second of two equal
    keys has the negated value of the first, so that the sum over values also consists of its rounding error.
    """
    generator = torch.Generator().manual_seed(bert.width)
    size = bert.width // bert.heads
    numbers = torch.randn((max(tokens_max, *lengths), 3, bert.heads, size), generator=generator)
    other = torch.randperm(size // 2, generator=generator)
    query, key = numbers[:, 0], numbers[:, 1]
    query[..., size // 2 :] = -query[..., other]
    key[..., size // 2 :] = key[..., other]
    query *= _LARGE
    for length in lengths:
        most = max(1, tokens_max // length)
        packed = numbers[: most * length].clone().view(most, length, 3, bert.heads, size)
        pairs = (length - STEP) // 2  # the last tokens may be masked
        packed[:, pairs : 2 * pairs, 1] = packed[:, :pairs, 1]
        packed[:, pairs : 2 * pairs, 2, ::2] = -packed[:, :pairs, 2, ::2]
        packed[:, 2 * pairs :, 2, ::2] *= pairs == 0
        ends = torch.randint(length - STEP + 1, length + 1, (most, 1), generator=generator)
        mask = torch.arange(length) < ends
        if not _length_is_independent(bert, pool, packed.view(most * length, -1).to(bert.dtype), mask):
            return False
    return True


def _length_is_independent(bert: PackedBert, pool: Pool, packed: torch.Tensor, mask: torch.Tensor) -> bool:
    """Whether sentences of one padded length have the same result alone and together.

    Shapes: `packed` `[sentences x length, 3 d]`, `mask` `[sentences, length]`.
    """
    most, length = mask.shape

    def attended(first: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        # Of the group's ids, only the shape is used.
        states = bert.attend(packed[first * length : end * length], [(mask[first:end], mask[first:end])])
        states = states.view(end - first, length, bert.width)
        return states, pool(states.float(), mask[first:end])

    alone = [torch.cat(parts) for parts in zip(*(attended(row, row + 1) for row in range(most)), strict=True)]
    return all(
        torch.equal(whole, parts[:count])
        for count in range(2, most + 1)
        for whole, parts in zip(attended(0, count), alone, strict=True)
    )


def batches_are_independent(encode: Encode, sentences: Sentences, shapes: Mapping[int, Sequence[int]]) -> bool:
    """Whether rows are treated alike in every shape of `shapes`, which maps each padded length to its numbers of rows,
    ascending powers of two. `encode` must run `rows` sentences of that length as one batch of that shape.
    """
    for length, counts in shapes.items():
        known = sentences.of(length, max(1, counts[-1] // 2))
        expected: npt.NDArray[np.float32] | None = None
        for count in reversed(counts):
            for first in (0, min(1, count - 1)):
                batch = sentences.of(length, count)  # companions that no other batch has
                batch[first::2] = known[: len(batch[first::2])]
                vectors = encode(batch)[first::2]
                if expected is None:
                    expected = vectors
                if not np.array_equal(vectors, expected[: len(vectors)]):
                    return False
    return True


def mixes_are_independent(encode: Encode, sentences: Sentences, lengths: Sequence[int]) -> bool:
    """Whether sentences of several lengths have the same vectors alone and together, in any order."""
    chosen = sentences.mixed(lengths, _MIXED_SENTENCES)
    alone = np.concatenate([encode([sentence]) for sentence in chosen])
    orders = [sentences.order(len(chosen), size) for size in _MIXED_SIZES]
    return all(np.array_equal(encode([chosen[i] for i in order]), alone[order]) for order in orders)


def arithmetic_of(encode: Encode, sentences: Sentences, lengths: Sequence[int]) -> str:
    """A digest of the vectors of some public sentences, bit for bit: SHA-256, in hexadecimal.

    Devices with equal digests are taken to compute equal vectors of every sentence. This is measured, not proven. Of
    two kernels that sum in another order, nearly every number differs in float32. In bfloat16 one row in 500 of a
    layer's states does, and these sentences have a thousand of them in each layer.
    """
    return hashlib.sha256(encode(sentences.mixed(lengths, _MIXED_SENTENCES)).tobytes()).hexdigest()

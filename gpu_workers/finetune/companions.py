"""Check on the device, before a training, whether a row's gradient depends on the other rows of its physical batch.

The sensitivity of a clipped sum (`gpu_workers.finetune.gradients`) assumes that a row's gradient is a function of that
row. Products of float32 matrices may round differently for another number of rows and, on some processors, at another
position in a batch. All physical batches of one row length have the same number of rows, except the last one. If the
position does not matter, one row more or less therefore changes the gradients of at most one physical batch of each
length that it adds or removes. If the position matters, it would change those of all later batches.

`batch_pieces` tests the position with generated rows at public lengths, bitwise. A device that fails gets batches of
one row, which are slower but independent of other rows by construction.
"""

from __future__ import annotations

import torch

from gpu_workers.finetune.base import Base
from gpu_workers.finetune.batches import Batch
from gpu_workers.finetune.classifier import Classifier, Part
from gpu_workers.finetune.gradients import PrivateGradient
from gpu_workers.finetune.methods import Trained
from gpu_workers.finetune.training import BATCH_PIECES

ROW_BY_ROW = 1
_LENGTHS = (8, 24, 64, 128, 512)
_SPECIAL_IDS = 5  # padding and separators come first in a vocabulary


def batch_pieces(model: Classifier, trained: Trained, base: Base, *, pairs: bool) -> int:
    """Return the word pieces of a physical batch for this model on its device: BATCH_PIECES, or ROW_BY_ROW if the check
    fails.

    The model is unchanged afterwards.
    """
    gradient = PrivateGradient(model, trained.own, clip_norm=1.0, noise_multiplier=1.0, expected_batch=1)
    zero = [parameter for parameter in trained.own.values() if not bool(parameter.any())]
    texts = 2 if pairs and not base.joint else 1
    try:
        with torch.no_grad():
            for parameter in zero:  # a head or adapter of zeros would hide the gradients of the layers before it
                parameter.normal_(std=0.1)
        checked = [length for length in _LENGTHS if length <= base.pieces_max]
        ignored = all(_place_is_ignored(gradient, _made_up(model, base, length, texts=texts)) for length in checked)
    finally:
        gradient.close()
        with torch.no_grad():
            for parameter in zero:
                parameter.zero_()
    return BATCH_PIECES if ignored else ROW_BY_ROW


def _place_is_ignored(gradient: PrivateGradient, batch: Batch) -> bool:
    """Whether every row keeps its gradient, bitwise, at another position in the batch."""
    own, moved = gradient.own(batch), gradient.own(_rolled(batch))
    return all(torch.equal(moved[name], tensor.roll(1, dims=0)) for name, tensor in own.items())


def _made_up(model: Classifier, base: Base, length: int, *, texts: int) -> Batch:
    """A full physical batch of random word pieces; every other row is padded."""
    device = next(model.parameters()).device
    rows = max(1, BATCH_PIECES // (texts * length))
    generator = torch.Generator().manual_seed(length)
    parts = []
    for _ in range(texts):
        ids = torch.randint(_SPECIAL_IDS, base.model.config.vocab_size, (rows, length), generator=generator)
        mask = torch.ones_like(ids, dtype=torch.bool)
        mask[::2, length - 3 :] = False
        ids[~mask] = base.pad
        types = torch.zeros_like(ids).to(device) if base.typed else None
        parts.append(Part(ids.to(device), mask.to(device), types))
    return Batch(tuple(parts), (torch.arange(rows) % 2).to(device))


def _rolled(batch: Batch) -> Batch:
    """The same rows, each one position later. Segment types are all zero."""
    parts = (Part(part.ids.roll(1, dims=0), part.mask.roll(1, dims=0), part.types) for part in batch.parts)
    return Batch(tuple(parts), batch.labels.roll(1))

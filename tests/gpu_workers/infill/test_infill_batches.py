"""Rows that the language model of fills is trained on: which pieces are hidden, and which are to be predicted."""

from __future__ import annotations

import torch

from gpu_workers.infill.batches import MASK, SPECIAL_MAX, InfillBatches, stream_of
from gpu_workers.models.embedded import embedded_vocabulary


def test_a_batch_asks_for_what_it_hides() -> None:
    tokenizer = embedded_vocabulary().tokenizer
    texts = ["The film was long, and nobody in the house knew why it had been made. " * 20] * 30
    batches = InfillBatches([(1.0, stream_of(tokenizer, iter(texts)))], tokenizer, 7)
    batch = batches.batch(0, 512)
    asked = batch.ids.reshape(-1)[batch.positions]
    assert batch.ids.numel() == 512
    assert 0.1 < len(asked) / 512 < 0.4
    assert 0.7 < float((asked == MASK).float().mean()) < 0.98
    assert (batch.truth > SPECIAL_MAX).all()
    assert torch.equal(batches.batch(0, 512).ids, batch.ids)
    assert not torch.equal(batches.batch(1, 512).positions, batch.positions)

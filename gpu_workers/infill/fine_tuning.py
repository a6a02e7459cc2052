"""Fine-tune the shipped language model on a tenant's texts: the same adapter, the same head, the same file format."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from tokenizers import Tokenizer

from gpu_workers.infill.batches import ROW_PIECES_MAX, InfillBatches, Masked, Stream
from gpu_workers.models.adapter_file import AdapterInfo, load_adapter, shipped
from gpu_workers.models.encoder import bundled_fingerprint
from gpu_workers.models.nets import InfillNet, backbone
from gpu_workers.models.precision import fastest_dtype
from gpu_workers.models.trainable_adapter import adapter_parameters, attach
from gpu_workers.models.training_loop import Checkpoint, Schedule, Training

SEED = 20232
BATCH_PIECES = 2_048
RATE = 4e-4
_SAVED_STEPS = 20
_BATCHES_MIN = 8  # a batch holds at most this part of the corpus, so that the steps on a small one differ


def shipped_net(device: torch.device) -> tuple[AdapterInfo, InfillNet]:
    """Return the shipped adapter on the bundled encoder, ready for further training."""
    info, tensors = load_adapter(shipped("infill"), "infill", bundled_fingerprint())
    bert = backbone(attention="eager")
    attach(bert, info.rank)
    net = InfillNet(bert)
    with torch.no_grad():
        for name, parameter in trained(net).items():
            parameter.copy_(tensors[name])
    return info, net.to(device)


def trained(net: InfillNet) -> dict[str, torch.nn.Parameter]:
    """Return the trained parameters, by their names in an adapter's file."""
    return {**adapter_parameters(net.bert), **net.own_parameters()}


def masked_loss(net: InfillNet, batch: Masked) -> torch.Tensor:
    """Mean cross-entropy of the hidden pieces; 0 if there is none."""
    device = batch.ids.device
    with torch.autocast(device.type, torch.bfloat16, enabled=fastest_dtype(device) is torch.bfloat16):
        logits = net(batch.ids, torch.ones_like(batch.ids), batch.positions)
    return torch.nn.functional.cross_entropy(logits.float(), batch.truth, reduction="sum") / max(1, len(batch.truth))


def fine_tune(
    net: InfillNet,
    stream: Stream,
    tokenizer: Tokenizer,
    *,
    steps: int,
    checkpoint: Checkpoint,
    progress: Callable[[float], None],
) -> None:
    """Train `net` in place, or resume from the checkpoint, and set its weights to their running average.

    `stream`: more than `ROW_PIECES_MAX` pieces. A quarter of the pieces of each row must be predicted.
    """
    batches = InfillBatches([(1.0, stream)], tokenizer, SEED)
    pieces = int(np.clip(len(stream) // _BATCHES_MIN, ROW_PIECES_MAX, BATCH_PIECES))
    device = net.bias.device
    schedule = Schedule(steps=steps, rate=RATE, warmup=max(1, min(100, steps // 10)))
    training = Training(trained(net), schedule, checkpoint, log=lambda _: None)

    def loss_of(step: int) -> torch.Tensor:
        progress(step / steps)
        batch = batches.batch(step, pieces)
        return masked_loss(net, Masked(batch.ids.to(device), batch.positions.to(device), batch.truth.to(device)))

    training.run(loss_of, lambda _: None, every_steps=_SAVED_STEPS)
    training.use_average()

"""Train the embedded masked language model: a low-rank adapter and a head on the bundled encoder.

    python -m training.infill --data DATA --checkpoint FILE.pt

This command trains, or resumes training. With `--export gpu_workers/adapters/infill.safetensors` it writes the current
state. Training can be interrupted at any moment. `--steps` sets the end of the schedule: the rate falls over its last
quarter.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from gpu_workers.infill.fine_tuning import BATCH_PIECES, SEED, InfillBatches, Masked, attach, masked_loss, trained
from gpu_workers.models.embedded import AdapterInfo, InfillNet, backbone, save_adapter
from gpu_workers.models.encoder import weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.training_loop import Schedule
from training.infill_texts import HELD_OUT, frequencies, held_out, public_streams
from training.logged_training import CheckpointFile, LoggedTraining
from training.tagger_batches import training_tokenizer

RANK = 128
SCHEDULE = Schedule(steps=20_000, rate=8e-4)
SOURCE = (
    "IMDB train, WikiText-2 valid, Yelp sentences, GLUE train parts, MR/CR/MPQA/TREC/SST-5 train, wikigold, GUM train"
)
LICENCE = (
    "IMDB: research, cite the paper; WikiText-2: CC BY-SA; wikigold: CC BY 4.0; GUM: CC; the others as their cards say"
)


def build() -> InfillNet:
    """Return the network before its first step; the same on every call."""
    torch.manual_seed(SEED)
    bert = backbone(attention="eager")
    attach(bert, RANK)
    return InfillNet(bert)


@torch.inference_mode()
def scores(net: InfillNet, batch: Masked) -> dict[str, float]:
    """How often the hidden piece is ranked first, and among the first five, and the mean loss."""
    length = batch.ids.shape[1]
    first = five = 0
    loss = 0.0
    for start in range(0, len(batch.ids), 16):
        inside = (batch.positions >= start * length) & (batch.positions < (start + 16) * length)
        ids, positions, truth = batch.ids[start : start + 16], batch.positions[inside], batch.truth[inside]
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(ids, torch.ones_like(ids), positions - start * length).float()
        loss += float(torch.nn.functional.cross_entropy(logits, truth, reduction="sum"))
        hits = logits.topk(5).indices == truth[:, None]
        first, five = first + int(hits[:, 0].sum()), five + int(hits.sum())
    count = len(batch.positions)
    return {"top-1": first / count, "top-5": five / count, "loss": loss / count, "pieces": count}


def evaluate(net: InfillNet, data: Path, rows: int) -> None:
    """Print the scores at 15 % hidden pieces of held-out text."""
    for corpus, texts in HELD_OUT.items():
        for length in (32, 128):
            found = scores(net, held_out(texts(data), length, rows * 128 // length))
            print(
                f"{corpus} rows of {length}: top-1 {found['top-1']:.3f} top-5 {found['top-5']:.3f} "
                f"loss {found['loss']:.3f} ({found['pieces']} pieces)",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the embedded masked language model.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public corpora")
    parser.add_argument("--checkpoint", type=Path, required=True, help="the file that stores the training's state")
    parser.add_argument("--steps", type=int, default=SCHEDULE.steps)
    parser.add_argument("--export", type=Path, help="write the adapter's current state and evaluate it; no training")
    arguments = parser.parse_args()
    net = build()
    batches = None
    if not arguments.export:
        streams, tokenizer = public_streams(arguments.data), training_tokenizer()
        batches = InfillBatches(streams, tokenizer, SEED)
        with torch.no_grad():
            net.bias.copy_(frequencies(streams, tokenizer.get_vocab_size()).log())
    schedule = replace(SCHEDULE, steps=arguments.steps)
    training = LoggedTraining(trained(net), schedule, CheckpointFile(arguments.checkpoint))
    if batches is None:
        training.use_average()
        info = AdapterInfo(
            kind="infill",
            encoder_fingerprint=weights_fingerprint(bundled_path()),
            rank=RANK,
            steps=training.step,
            source=SOURCE,
            licence=LICENCE,
        )
        save_adapter(arguments.export, info, training.parameters)
        evaluate(net, arguments.data, 200)
        return

    def loss_of(step: int) -> torch.Tensor:
        return masked_loss(net, batches.batch(step, BATCH_PIECES))

    def every(_step: int) -> None:
        with training.averaged():
            evaluate(net, arguments.data, 100)

    training.run(loss_of, every, every_steps=250)


if __name__ == "__main__":
    main()

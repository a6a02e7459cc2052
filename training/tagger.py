"""Train the embedded entity tagger: a copy of the bundled encoder's network, a table of letter cases and a head.

    python -m training.tagger --data DATA --start START --checkpoint FILE.pt

This command trains, or resumes training. With `--export gpu_workers/adapters/tagger.safetensors` it writes the current
state. Training can be interrupted at any moment. DATA is described in `ner_corpora`. START is the folder described in
`rampart`, or an earlier tagger's file. CoNLL-2003 and the development part of WNUT17 are used for evaluation only.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from gpu_workers.models.embedded import REPLACED, AdapterInfo, TaggerNet, backbone, load_adapter, merged, save_adapter
from gpu_workers.models.encoder import weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.training_loop import Schedule
from training import ner_corpora, rampart
from training.logged_training import CheckpointFile, LoggedTraining
from training.ner_corpora import IGNORED, NONE, Tagged
from training.tagger_batches import LABELS, PIECES_MAX, Batches, Example, example, tensors, training_tokenizer

SEED = 20231
SCHEDULE = Schedule(steps=2_640, rate=2e-4)
BATCH_PIECES = 2_048
IS_BFLOAT16_FAST = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # else its emulation is far slower than float32
SOURCE = (
    "Rampart (National Design Studio); WNUT17 train and test, BTC, Tweebank-NER, wikigold, GUM train; Universal NER; "
    "GermEval 2014; KPWr; Europeana newspapers; Universal Dependencies; own texts with names by faker and GeoNames"
)
LICENCE = (
    "CC BY 4.0 (Rampart, WNUT17, BTC, wikigold, GermEval, GeoNames, UD Italian-MarkIT), CC BY 3.0 (KPWr), CC (GUM), "
    "CC0 (Europeana), CC BY-SA 4.0 and 3.0 (Universal NER, other treebanks), Apache-2.0 (Tweebank-NER), MIT (faker)"
)


def build(start: Path | None) -> TaggerNet:
    """Return the network before its first step; the same on every call. `start`: Rampart's folder or a tagger."""
    torch.manual_seed(SEED)
    bert = backbone(attention="sdpa")
    if start is not None and start.is_dir():
        rampart.copy_to(bert, start, training_tokenizer().get_vocab())
    net = TaggerNet(bert, len(LABELS)).requires_grad_(True)
    if start is not None and start.is_file():
        _copy_to(net, start)
    return net


@torch.no_grad()
def _copy_to(net: TaggerNet, file: Path) -> None:
    """Copy an earlier tagger's weights. A label that it lacks keeps its random row of the head."""
    info, tensors = load_adapter(file, "tagger", weights_fingerprint(bundled_path()))
    net.bert.load_state_dict(merged(net.bert.state_dict(), tensors))
    net.case.weight.copy_(tensors["case"])
    rows = [LABELS.index(label) for label in info.labels]
    net.head.weight[rows], net.head.bias[rows] = tensors["head.weight"], tensors["head.bias"]


def trained(net: TaggerNet) -> dict[str, torch.nn.Parameter]:
    """Every parameter, by its name in the shipped file."""
    return {**{REPLACED + name: parameter for name, parameter in net.bert.named_parameters()}, **net.own_parameters()}


@torch.inference_mode()
def _logits(net: TaggerNet, examples: list[Example]) -> list[np.ndarray]:
    out: list[np.ndarray] = [np.zeros(0)] * len(examples)
    order = sorted(range(len(examples)), key=lambda i: len(examples[i].labels))
    for start in range(0, len(order), 32):
        rows = order[start : start + 32]
        batch = tensors([examples[i] for i in rows])
        with torch.autocast("cpu", torch.bfloat16, enabled=IS_BFLOAT16_FAST):
            logits = net(batch["ids"], batch["cases"], batch["mask"]).float().numpy()
        for row, i in enumerate(rows):
            out[i] = logits[row, 1 : 1 + len(examples[i].labels)]
    return out


def joined(sentences: list[Tagged], pieces: int) -> list[Tagged]:
    """Join consecutive sentences up to about `pieces` pieces."""
    out: list[Tagged] = []
    for sentence in sentences:
        if out and 1.6 * (len(out[-1].words) + len(sentence.words)) < pieces:
            out[-1] = Tagged(out[-1].words + sentence.words, out[-1].labels + sentence.labels)
        else:
            out.append(sentence)
    return out


def scores(net: TaggerNet, sentences: list[Tagged]) -> dict[str, float]:
    """Micro-F1 of words over the three types, and each type's recall. A word gets the label of most of its pieces."""
    tokenizer = training_tokenizer()
    written = [ner_corpora.written(sentence, natural=False) for sentence in sentences]
    examples = []
    for text, spans in written:
        item = example(tokenizer, text, spans)
        examples.append(item)
    right = guessed = present = 0
    found = dict.fromkeys(LABELS[1:], 0)
    total = dict.fromkeys(LABELS[1:], 0)
    for (_, spans), item, logits in zip(written, examples, _logits(net, examples), strict=True):
        for start, end, label in spans:
            inside = (item.pieces.starts >= start) & (item.pieces.starts < end)
            if label == IGNORED or not inside.any():
                continue
            guess = LABELS[int(logits[inside].mean(axis=0).argmax())]
            right += guess == label != NONE
            guessed += guess != NONE
            present += label != NONE
            if label != NONE:
                total[label] += 1
                found[label] += guess != NONE
    figures = {"f1": 2 * right / max(1, guessed + present), "precision": right / max(1, guessed)}
    figures["recall"] = right / max(1, present)
    return figures | {f"masked {label}": found[label] / max(1, total[label]) for label in LABELS[1:]}


def evaluate(net: TaggerNet, data: Path, limit: int | None) -> None:
    """Print the scores on the held-out corpora, sentence by sentence and joined to documents."""
    for corpus in ("conll-testa", "wnut17-dev"):
        sentences = ner_corpora.read(data, corpus)[:limit]
        for name, unit in (("sentences", sentences), ("joined", joined(sentences, PIECES_MAX))):
            line = " ".join(f"{key} {value:.3f}" for key, value in scores(net, unit).items())
            print(f"{corpus} {name}: {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the embedded entity tagger.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public corpora")
    parser.add_argument("--start", type=Path, help="Rampart's folder or an earlier tagger; by default, the encoder")
    parser.add_argument("--steps", type=int, default=SCHEDULE.steps)
    parser.add_argument("--rate", type=float, default=SCHEDULE.rate)
    parser.add_argument("--checkpoint", type=Path, required=True, help="the file that stores the training's state")
    parser.add_argument("--export", type=Path, help="write the adapter's current state and evaluate it; no training")
    arguments = parser.parse_args()
    net = build(arguments.start)
    schedule = replace(SCHEDULE, steps=arguments.steps, rate=arguments.rate)
    training = LoggedTraining(trained(net), schedule, CheckpointFile(arguments.checkpoint))
    if arguments.export:
        training.use_average()
        info = AdapterInfo(
            kind="tagger",
            encoder_fingerprint=weights_fingerprint(bundled_path()),
            rank=0,
            steps=training.step,
            source=SOURCE,
            licence=LICENCE,
            labels=LABELS,
        )
        save_adapter(arguments.export, info, training.parameters)
        evaluate(net, arguments.data, None)
        return
    batches = Batches(arguments.data, SEED)

    def loss_of(step: int) -> torch.Tensor:
        batch = batches.batch(step, BATCH_PIECES)
        with torch.autocast("cpu", torch.bfloat16, enabled=IS_BFLOAT16_FAST):
            logits = net(batch["ids"], batch["cases"], batch["mask"])
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), batch["labels"].flatten())

    def every(_step: int) -> None:
        with training.averaged():
            evaluate(net, arguments.data, 1_000)

    training.run(loss_of, every, every_steps=300)


if __name__ == "__main__":
    main()

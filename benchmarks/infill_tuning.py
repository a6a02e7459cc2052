"""Whether fine-tuning on an obfuscated corpus helps a language model to fill text of that kind.

    python -m benchmarks.infill_tuning --data DATA [--documents 300 --steps 100 --rounds 2]

DATA holds `20news/{train,test}.jsonl.gz`, text of a kind that the shipped adapter was not trained on, and
`imdb/train.jsonl.gz`, text that it was. The job of `POST /jobs/infill` itself runs, on documents of the training part.
Then 15 % of the word pieces of the test part are hidden: how often is the hidden one the first, or among the first
five, and at what loss? Beside the job: the shipped adapter; the same job with a mask that finds nothing, which sees the
raw text and is the most that can be hoped for; and that job on IMDB, which shows what more steps on other text bring.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import torch

from core.files.encrypted_file import EncryptedFileWriter, new_key
from core.text.policy import MaskPolicy
from gpu_workers.infill import job as infill_job
from gpu_workers.infill.fine_tuning import Masked, shipped_net, trained
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.jobs.protocol import INPUT, JobOrder
from gpu_workers.models.embedded import load_adapter
from gpu_workers.models.encoder import weights_fingerprint
from gpu_workers.models.encoder_model import bundled_path
from training.infill import scores
from training.infill_texts import held_out
from training.public_text import json_lines

CHARS = 2_000  # of a document: posts that quote whole files would be most of the corpus
MASKS = MaskPolicy(techniques=("entity", "vocabulary"))
NO_MASKS = MaskPolicy(entities=("UUID",))


def texts(data: Path, part: str) -> Iterator[str]:
    return (" ".join(row["text"][:CHARS].split()) for row in json_lines(data / f"{part}.jsonl.gz"))


def tuned(documents: list[str], folder: Path, policy: MaskPolicy, *, rounds: int, steps: int) -> tuple[Path, Any]:
    """The file that the job makes of these documents, and its result."""
    key = new_key()
    folder.mkdir()
    writer = EncryptedFileWriter(folder / INPUT, key, INPUT)
    for document in documents:
        writer.write(orjson.dumps({"text": document}) + b"\n")
    writer.close()
    target = folder / "model.safetensors"
    spec = InfillSpec("own", (str(target),), policy, "topk", 10, rounds, steps)
    return target, infill_job.run(JobOrder("infill", folder, key, spec), lambda _stage, _fraction: None, lambda: None)


def show(name: str, path: Path | None, held: dict[int, Masked]) -> None:
    _, net = shipped_net(torch.device("cpu"))
    if path is not None:
        _, tensors = load_adapter(path, "infill", weights_fingerprint(bundled_path()))
        with torch.no_grad():
            for key, parameter in trained(net).items():
                parameter.copy_(tensors[key])
    for length, batch in held.items():
        found = scores(net, batch)
        cells = f"{found['top-1']:.3f} | {found['top-5']:.3f} | {found['loss']:.3f}"
        print(f"| {name} | {length} | {cells} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what fine-tuning on an obfuscated corpus brings.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the evaluation data")
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--steps", type=int, default=100, help="of a round")
    parser.add_argument("--rounds", type=int, default=2, help="the most rounds that are tried")
    arguments = parser.parse_args()
    posts, reviews = (
        list(islice(texts(arguments.data, part), arguments.documents)) for part in ("20news/train", "imdb/train")
    )
    held = {length: held_out(texts(arguments.data, "20news/test"), length, 200 * 128 // length) for length in (32, 128)}
    print(f"{len(posts)} documents, hidden pieces {[len(batch.positions) for batch in held.values()]}")
    print("| | pieces a row | top-1 | top-5 | loss |\n| --- | --- | --- | --- | --- |")
    show("shipped", None, held)
    ways = [(f"obfuscated, rounds: {rounds}", posts, MASKS, rounds) for rounds in range(1, arguments.rounds + 1)]
    ways += [("raw text", posts, NO_MASKS, 1), ("raw text of another kind", reviews, NO_MASKS, 1)]
    for name, documents, policy, rounds in ways:
        with TemporaryDirectory() as folder:
            started = time.perf_counter()
            path, result = tuned(documents, Path(folder) / "job", policy, rounds=rounds, steps=arguments.steps)
            print(f"{time.perf_counter() - started:.0f} s, {result['places']} places, {result['pieces']} pieces")
            show(name, path, held)


if __name__ == "__main__":
    main()

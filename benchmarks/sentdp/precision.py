"""Macro-F1 of sentence-level release with the encoder in 8-bit integers, beside the encoder in bfloat16.

    python -m benchmarks.sentdp.precision --data DATA [--trials 5] [--share 1] [--control] [--method NAME] [--seed 0]
        [--corpus IMDB]

As `benchmarks.sentdp`, with the shipped `general` pack, which was made with bfloat16. Each encoder embeds both the
documents that train the classifiers and those that are released. `--share`: of the documents. `--control` adds the
encoder in float32. It is nearer to bfloat16 than the one in integers, and what it adds is due to the choice of
documents and to the draws of the mechanisms. `--method` measures that row alone, `--corpus` that corpus, and `--seed`
draws other noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.sentdp.__main__ import CACHE, PACK
from benchmarks.sentdp.corpus import EPSILONS, SOURCES, Source
from benchmarks.sentdp.methods import GENERAL, NON_PRIVATE, Classifiers, Method, of_pack
from benchmarks.sentdp.table import Cell
from core.mechanisms.sentences.domain_pack import DomainPack
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.integer.encoder import IntegerEncoder
from training import public_text

WITHIN = 0.005


def cells(
    source: Source,
    share: float,
    pack: DomainPack,
    encoder: Any,
    data: Path,
    cache: Path,
    trials: int,
    only: str = "",
    seed: int = 0,
) -> dict[str, list[Cell]]:
    """The cells of each row, against epsilon."""
    train_documents = source.read(data, "train", round(share * source.train))
    test_documents = source.read(data, "test", round(share * source.test))
    train = public_text.embed(train_documents, encoder, cache, f"{source.name}-train")
    test = public_text.embed(test_documents, encoder, cache, f"{source.name}-test")
    classifiers = Classifiers({GENERAL: pack}, train)
    documents = test.documents()

    def cell(method: Method, epsilon: float) -> Cell:
        count = trials if method.random else 1
        vectors = (method.release(documents, epsilon) for _ in range(count))
        return Cell.of([classifiers.score(method.space, each, test.labels) for each in vectors], random=method.random)

    found = {
        method.name: [cell(method, epsilon) for epsilon in (EPSILONS if method.private else EPSILONS[:1])]
        for method in of_pack(GENERAL, pack, np.random.default_rng(seed))
        if not only or method.name.startswith(f"{only}, ")
    }
    if only:
        return found
    means = np.stack([document.mean(axis=0) for document in documents])
    found[NON_PRIVATE] = [Cell.of([classifiers.score("encoder", means, test.labels)], random=False)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--method", default="", help="one row of the table")
    parser.add_argument("--corpus", choices=SOURCES, help="one corpus alone")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    pack = DomainPack.load(PACK)
    encoders: dict[str, Any] = {"bfloat16": Encoder(dtype=torch.bfloat16), "int8": IntegerEncoder()}
    if chosen.control:
        encoders["float32"] = Encoder(dtype=torch.float32)
    differences: dict[str, list[float]] = {name: [] for name in list(encoders)[1:]}
    for title, source in SOURCES.items():
        if chosen.corpus not in (None, title):
            continue
        base, *others = (
            cells(
                source,
                chosen.share,
                pack,
                encoder,
                chosen.data,
                chosen.cache,
                chosen.trials,
                chosen.method,
                chosen.seed,
            )
            for encoder in encoders.values()
        )
        heads = " | ".join(f"eps {epsilon}" for epsilon in EPSILONS)
        print(f"\n| {title}: bfloat16, {', '.join(differences)} to it | {heads} |\n|" + " --- |" * (1 + len(EPSILONS)))
        for name, row in base.items():
            shown = []
            for i, cell in enumerate(row):
                added = [other[name][i].mean - cell.mean for other in others]
                for own, difference in zip(differences.values(), added, strict=True):
                    own.append(difference)
                shown.append(", ".join([str(cell), *(f"{difference:+.3f}" for difference in added)]))
            print(f"| {name} | " + " | ".join(shown) + " |", flush=True)
    for name, own in differences.items():
        sizes = np.abs(own)
        within = f"{(sizes <= WITHIN).sum()} of {len(sizes)} cells within {WITHIN}"
        print(f"{name}: {within}; the difference is {np.mean(own):+.4f} on average, its size {sizes.mean():.4f}")


if __name__ == "__main__":
    main()

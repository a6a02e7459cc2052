"""Utility of sentence-level release: macro-F1 against epsilon on 20 Newsgroups (7 topics) and IMDB.

    python -m benchmarks.sentdp_utility --data DATA --cache CACHE

Documents of at least 8 sentences, the first 24 used. A logistic regression is trained on the clean (non-private)
mean embeddings of public training documents, in the space in which the mechanism releases, and tested on released
vectors of the test split, which gave no candidate and no knob. Prints a Markdown table: mean and standard deviation
over trials.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from core.mechanisms.domain_pack import DomainPack
from core.mechanisms.pricing import SENTENCE_MECHANISMS
from core.mechanisms.sentence import sentence_mechanism
from gpu_workers.encoder import Encoder
from gpu_workers.training import public_text, recoder
from gpu_workers.training.public_text import Embedded

EPSILONS = (3, 6, 10, 25)
PACK = Path(__file__).parent.parent / "gpu_workers" / "packs" / "general.safetensors"


def means_in(space: str, pack: DomainPack, corpus: Embedded) -> np.ndarray:
    """Clean document means in the space of a mechanism's releases."""
    return corpus.means() if space == "encoder" else recoder.recoded_means(pack.recoder, corpus)


def rows(pack: DomainPack, train: Embedded, test: Embedded, trials: int) -> list[tuple[str, list[str]]]:
    """The table's rows for one dataset."""
    documents = [torch.from_numpy(document) for document in test.documents()]
    table: list[tuple[str, list[str]]] = []
    source = np.random.default_rng(0)
    for name in SENTENCE_MECHANISMS:
        mechanism = sentence_mechanism(name, pack)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.01))
        model.fit(means_in(mechanism.space, pack, train), train.labels)

        def score(vectors: np.ndarray, model=model) -> float:
            return float(f1_score(test.labels, model.predict(vectors), average="macro"))

        cells = []
        for epsilon in EPSILONS:
            nano = [epsilon * 10**9] * len(documents)
            results = [score(mechanism.release(documents, nano).vectors) for _ in range(trials)]
            cells.append(f"{np.mean(results):.3f} ± {np.std(results):.3f}")
        table.append((name, cells))
        clean = f"{score(means_in(mechanism.space, pack, test)):.3f}"
        outputs = pack.candidates if mechanism.space == "encoder" else pack.recoded
        guess = f"{score(outputs[source.integers(0, len(outputs), len(documents))]):.3f}"
        table.append((f"non-private ({mechanism.space} space)", [clean] * len(EPSILONS)))
        table.append((f"random candidate ({mechanism.space} space)", [guess] * len(EPSILONS)))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Macro-F1 of sentence-level releases.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "privacy-gateway-embeddings")
    parser.add_argument("--pack", type=Path, default=PACK)
    parser.add_argument("--trials", type=int, default=2)
    arguments = parser.parse_args()
    encoder = Encoder()
    pack = DomainPack.load(arguments.pack, encoder_fingerprint=encoder.fingerprint)
    corpora = {
        "20 Newsgroups": (
            ("20news-train", public_text.newsgroups(arguments.data, "train", 4_500)),
            ("20news-test", public_text.newsgroups(arguments.data, "test", 1_500)),
        ),
        "IMDB": (
            ("imdb-train", public_text.imdb(arguments.data, "train", 3_500)),
            ("imdb-test", public_text.imdb(arguments.data, "test", 1_200)),
        ),
    }
    for title, splits in corpora.items():
        train, test = (public_text.embed(docs, encoder, arguments.cache, name) for name, docs in splits)
        print(f"\n| {title} | " + " | ".join(f"eps {epsilon}" for epsilon in EPSILONS) + " |")
        print("| --- " * (len(EPSILONS) + 1) + "|")
        for name, cells in rows(pack, train, test, arguments.trials):
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

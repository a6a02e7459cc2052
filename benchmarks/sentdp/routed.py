"""Macro-F1 of releases with a pack that is chosen for each document (`auto`), beside each installed pack by name.

    python -m benchmarks.sentdp.routed --data DATA [--trials 3]

Test documents of 20 Newsgroups (7 topics) and IMDB (sentiment) at their own numbers of sentences, questions of TREC (6
types) and sentences of customer reviews (sentiment). The score is that of `few_sentences`. The last column of `auto`
is the share of documents that got each pack at the largest epsilon. No text of the test splits was used for a pack.
"""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial
from pathlib import Path

import torch

from benchmarks.sentdp.__main__ import CACHE
from benchmarks.sentdp.baselines import FloatArray
from benchmarks.sentdp.few_sentences import SOURCES, first_sentences, score
from benchmarks.sentdp.methods import Documents
from benchmarks.sentdp.table import Cell, Row, Table
from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.routes import AUTO, Routes
from core.mechanisms.sentences.routing import RoutedCodes, Router
from core.mechanisms.sentences.sentence_codes import SentenceCodes
from gpu_workers.models.encoder import Encoder
from gpu_workers.packs import pack_paths, routes_path
from training import public_text

EPSILONS = (3, 6, 10, 25)
SENTENCES_MAX = 24


def shares(chosen: tuple[str, ...]) -> str:
    """Return the share of documents of each pack, the largest first."""
    return ", ".join(f"{name} {count / len(chosen):.2f}" for name, count in Counter(chosen).most_common())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--packs", type=Path, help="folder of further packs, as PRIVACY_GATEWAY_PACKS_DIR")
    parser.add_argument("--trials", type=int, default=3)
    chosen = parser.parse_args()
    encoder = Encoder()
    path = routes_path(chosen.packs)
    if path is None:
        parser.error("no routes are installed")
    routes, paths = Routes.load(path), pack_paths(chosen.packs)
    packs = {
        name: SentenceCodes(DomainPack.load(paths[name], encoder_fingerprint=encoder.packs_of))
        for name in routes.info.packs
    }
    routed = RoutedCodes(Router(routes), packs)

    def by_name(name: str, documents: Documents, epsilon: float) -> tuple[FloatArray, str]:
        rows = [torch.from_numpy(document) for document in documents]
        return packs[name].release(rows, [round(epsilon * NANO)] * len(rows)), "all"

    def by_choice(documents: Documents, epsilon: float) -> tuple[FloatArray, str]:
        rows = [torch.from_numpy(document) for document in documents]
        vectors, names = routed.release(rows, [round(epsilon * NANO)] * len(rows))
        return vectors, shares(names)

    methods = {AUTO: by_choice} | {name: partial(by_name, name) for name in packs}
    for title, source in SOURCES.items():
        corpus = public_text.embed(source.read(chosen.data), encoder, chosen.cache, f"few-{title.replace(' ', '-')}")
        documents, labels = first_sentences(corpus, 1, SENTENCES_MAX)
        table = Table(title, EPSILONS, [f"eps {epsilon}" for epsilon in EPSILONS], about="documents' packs")
        for name, release in methods.items():
            cells, about = [], ""
            for epsilon in EPSILONS:
                scores = []
                for _ in range(chosen.trials):
                    vectors, about = release(documents, epsilon)
                    scores.append(score(vectors, labels))
                cells.append(Cell.of(scores))
            table.rows[name] = Row(about, cells)
        print(f"\n{table.markdown()}", flush=True)


if __name__ == "__main__":
    main()

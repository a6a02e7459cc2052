"""Macro-F1 of sentence-level release on 20 Newsgroups (7 topics) and IMDB, as Figure 4 of Meehan et al. 2022.

    python -m benchmarks.sentdp --data DATA [--trials 5] [--figures docs/reference/sentdp]
    python -m benchmarks.sentdp --data DATA --speed

Documents of at least 8 sentences, the first 24 used. A logistic regression is trained on clean means of public training
documents, in the space in which a row's mechanism releases, and tested on released vectors of the test split, which
gave no candidate and no knob. Against epsilon: each document at its own number of sentences k. Against k: documents of
at least k sentences cut to their first k, at epsilon 10. Mean and standard deviation over trials of the mechanism.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.sentdp import figures, speed
from benchmarks.sentdp.methods import Classifiers, Documents, methods
from benchmarks.sentdp.table import Cell, Row, Table
from benchmarks.sentdp.words import WordMechanism
from core.mechanisms.domain_pack import DomainPack
from gpu_workers.encoder import Encoder
from gpu_workers.training import public_text
from gpu_workers.training.public_text import Document, Embedded

EPSILONS = (3, 6, 10, 25)
WORD_EPSILONS = (*EPSILONS, 50, 100, 200)
LENGTHS = (4, 8, 12, 16, 24)
LENGTHS_EPSILON = 10
SHARE_EPSILONS = (3, 10)
WORDS = "word-level metric DP"
PACK = Path(__file__).parents[2] / "gpu_workers" / "packs" / "general.safetensors"
CORPORA: dict[str, tuple[str, Callable[[Path, str, int], list[Document]], int, int]] = {
    "20 Newsgroups": ("20news", public_text.newsgroups, 4_500, 1_500),
    "IMDB": ("imdb", public_text.imdb, 3_500, 1_200),
}


class Corpus:
    """One corpus: its classifiers, its test documents and the tables over them."""

    def __init__(self, title: str, pack: DomainPack, encoder: Encoder, data: Path, cache: Path) -> None:
        name, read, train_limit, test_limit = CORPORA[title]
        self.title = title
        train = public_text.embed(read(data, "train", train_limit), encoder, cache, f"{name}-train")
        self.texts = read(data, "test", test_limit)
        test: Embedded = public_text.embed(self.texts, encoder, cache, f"{name}-test")
        self.documents, self.labels = test.documents(), test.labels
        self.classifiers = Classifiers(pack, train)
        self.methods = methods(pack, self.classifiers.box)

    def against_epsilon(self, trials: int) -> Table:
        table = Table(self.title, EPSILONS, [f"eps {epsilon}" for epsilon in EPSILONS])
        for method in self.methods:
            runs = trials if method.random else 1
            cells = []
            for epsilon in EPSILONS if method.private else EPSILONS[:1]:
                vectors = (method.release(self.documents, epsilon) for _ in range(runs))
                results = [self.classifiers.score(method.space, each, self.labels) for each in vectors]
                cells.append(Cell.of(results, random=method.random))
            table.rows[method.name] = Row(method.protects, cells if method.private else cells * len(EPSILONS))
        return table

    def against_length(self, trials: int) -> Table:
        chosen = {k: [i for i, document in enumerate(self.documents) if len(document) >= k] for k in LENGTHS}
        heads = [f"k {k} ({len(members)} documents)" for k, members in chosen.items()]
        table = Table(f"{self.title}, eps {LENGTHS_EPSILON}", LENGTHS, heads)
        for method in self.methods:
            cells = []
            for k, members in chosen.items():
                documents, labels = [self.documents[i][:k] for i in members], [self.labels[i] for i in members]
                runs = range(trials if method.random else 1)
                vectors = (method.release(documents, LENGTHS_EPSILON) for _ in runs)
                results = [self.classifiers.score(method.space, each, labels) for each in vectors]
                cells.append(Cell.of(results, random=method.random))
            table.rows[method.name] = Row(method.protects, cells)
        return table

    def words(self, mechanism: WordMechanism, count: int, trials: int) -> tuple[Table, Row]:
        """Word-level metric DP on the first `count` documents: against epsilon, and the row against k.

        Sentences are encoded one by one, so one pass over the longest documents serves every k.
        """
        heads = [f"eps {epsilon}" for epsilon in WORD_EPSILONS]
        table = Table(f"{self.title}, first {count} documents", WORD_EPSILONS, heads)
        source = np.random.default_rng(1)
        cells, kept = [], []
        for epsilon in WORD_EPSILONS:
            runs = [mechanism.release(self.texts[:count], epsilon, source) for _ in range(trials)]
            cells.append(Cell.of([self._score_means(documents, self.labels[:count]) for documents, _ in runs]))
            kept.append(Cell.of([share for _, share in runs], random=False))
        clean = Cell.of([self._score_means(self.documents[:count], self.labels[:count])], random=False)
        table.rows[WORDS] = Row("one word, by distance (weaker)", cells)
        table.rows["share of words unchanged"] = Row("", kept)
        table.rows["non-private"] = Row("nothing", [clean] * len(cells))
        longest = [i for i, text in enumerate(self.texts) if len(text.sentences) >= max(LENGTHS)][:count]
        texts, labels = [self.texts[i] for i in longest], [self.labels[i] for i in longest]
        results: dict[int, list[float]] = {k: [] for k in LENGTHS}
        for _ in range(trials):
            documents, _ = mechanism.release(texts, LENGTHS_EPSILON, source)
            for k in LENGTHS:
                results[k].append(self._score_means([document[:k] for document in documents], labels))
        row = Row(f"one word, by distance (weaker); {len(longest)} documents", [Cell.of(results[k]) for k in LENGTHS])
        return table, row

    def _score_means(self, documents: Documents, labels: Sequence[str]) -> float:
        return self.classifiers.score("encoder", np.stack([document.mean(axis=0) for document in documents]), labels)


def gap_closed(table: Table) -> str:
    """How much of the gap between `deep_candidate` and the encoder-space non-private mean `clipped_cosine` closes."""
    clean = table.rows["non-private, encoder space"].cells[0].mean
    shares = []
    for epsilon in SHARE_EPSILONS:
        at = EPSILONS.index(epsilon)
        ours, theirs = (table.rows[name].cells[at].mean for name in ("clipped_cosine", "deep_candidate"))
        shares.append(f"{(ours - theirs) / (clean - theirs):.0%} at eps {epsilon}")
    return f"{table.title}: clipped_cosine closes {', '.join(shares)} of the gap from deep_candidate to non-private"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "privacy-gateway-embeddings")
    parser.add_argument("--pack", type=Path, default=PACK)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--word-documents", type=int, default=200, help="0 leaves word-level metric DP out")
    parser.add_argument("--word-trials", type=int, default=2)
    parser.add_argument("--figures", type=Path, help="folder for the SVGs")
    parser.add_argument("--speed", action="store_true", help="time the selection instead")
    chosen = parser.parse_args()
    encoder = Encoder()
    pack = DomainPack.load(chosen.pack, encoder_fingerprint=encoder.fingerprint)
    if chosen.speed:
        _, read, _, limit = CORPORA["20 Newsgroups"]
        test = public_text.embed(read(chosen.data, "test", limit), encoder, chosen.cache, "20news-test")
        speed.measure(pack, test)
        return
    words = WordMechanism(encoder) if chosen.word_documents else None
    by_epsilon, by_length = {}, {}
    for title in CORPORA:
        corpus = Corpus(title, pack, encoder, chosen.data, chosen.cache)
        by_epsilon[title] = corpus.against_epsilon(chosen.trials)
        by_length[title] = corpus.against_length(chosen.trials)
        print(f"\n{by_epsilon[title].markdown()}\n\n{gap_closed(by_epsilon[title])}", flush=True)
        if words:
            table, row = corpus.words(words, chosen.word_documents, chosen.word_trials)
            by_length[title].rows[WORDS] = row
            own = table.rows[WORDS]
            by_epsilon[title].rows[WORDS] = Row(own.protects, own.cells[: len(EPSILONS)])
            print(f"\n{table.markdown()}")
        print(f"\n{by_length[title].markdown()}", flush=True)
    if chosen.figures:
        figures.draw(by_epsilon, chosen.figures / "against-epsilon.svg", xlabel="epsilon (each document's own k)")
        figures.draw(by_length, chosen.figures / "against-k.svg", xlabel=f"sentences k (epsilon {LENGTHS_EPSILON})")


if __name__ == "__main__":
    main()

"""Macro-F1 of sentence-level release on 20 Newsgroups (7 topics) and IMDB, as Figure 4 of Meehan et al. 2022.

    python -m benchmarks.sentdp --data DATA [--trials 5] [--figures FOLDER]

Documents of at least 8 sentences, the first 24 used. A logistic regression is trained on clean means of public training
documents, in the space in which a row's mechanism releases, and tested on released vectors of the test split, which
gave no code, no candidate and no knob. Against epsilon: each document at its own number of sentences k. Against k:
documents of at least k sentences cut to their first k, at epsilon 10. Mean and standard deviation over trials of the
mechanism.

Two packs each: the corpus's own (its training split without labels; built into `--packs` if it is not there) and the
shipped `general` one. `sentence_codes` also has an own pack that used the training split's labels, and the own pack of
the other corpus. `--encoder int8` embeds by the encoder in 8-bit integers, beside which another run has the same
figures of the packs' own encoder; `--share` changes the number of documents.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.kit import CACHE, Cell, Row, Table, arguments, draw
from benchmarks.sentdp.methods import (
    GENERAL,
    LABELLED,
    NON_PRIVATE,
    OWN,
    Classifiers,
    Documents,
    Method,
    WordMechanism,
    baselines,
    means,
    of_pack,
    shipped,
)
from core.mechanisms.sentences.domain_pack import DomainPack
from gpu_workers.domains import build_pack
from gpu_workers.domains.spec import STEPS_MAX
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.integer.encoder import IntegerEncoder
from gpu_workers.packs import pack_paths
from training import public_text, shipped_packs
from training.public_text import Document

EPSILONS = (3, 6, 10, 25)
WORD_EPSILONS = (*EPSILONS, 50, 100, 200)
LENGTHS = (4, 8, 12, 16, 24)
LENGTHS_EPSILON = 10
WORDS, BY_WORD = "word-level metric DP", "one word, by distance (weaker)"
STYLES = {
    f"{name}{pack}": f"{colour} {line}"
    for name, colour in {
        "sentence_codes": "#e0559a",
        "clipped_cosine": "#1f5fa8",
        "deep_candidate": "#c0392b",
        "document_selection": "#5d6d7e",
        "truncation": "#8e6bbf",
        "mean_laplace": "#d08c1d",
        WORDS: "#2e8b57",
    }.items()
    for pack, line in {"": "o-", f", {OWN}": "o-", f", {GENERAL}": "s:"}.items()
} | {NON_PRIVATE: "black --", f"random candidate, {GENERAL}": "#999999 --"}


@dataclass(frozen=True)
class Source:
    """Where a corpus comes from: `name` in the cache, its own pack's name, its reader and how much is read."""

    name: str
    pack: str
    read: Callable[[Path, str, int], list[Document]]
    train: int
    test: int


SOURCES = {
    "20 Newsgroups": Source("20news", "newsgroups", public_text.newsgroups, 4_500, 1_500),
    "IMDB": Source("imdb", "imdb", public_text.imdb, 3_500, 1_200),
}
ENCODERS: dict[str, Callable[[], Encoder | IntegerEncoder]] = {
    "floating": Encoder,
    "bfloat16": lambda: Encoder(dtype=torch.bfloat16),
    "float32": lambda: Encoder(dtype=torch.float32),
    "int8": IntegerEncoder,
}


def own_pack(title: str, encoder: Encoder | IntegerEncoder, chosen: argparse.Namespace, labels: bool) -> DomainPack:
    """The pack of the training split: read from `--packs`, or built into it. Labels: the group, the sentiment."""
    source = SOURCES[title]
    path = (chosen.packs or chosen.cache) / f"{source.pack}{'-labelled' if labels else ''}.safetensors"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        corpora, steps = (f"{source.name}-train",), STEPS_MAX
        made = {"name": source.pack, "corpora": corpora, "labelled": labels, "steps": steps}
        shipped_packs.build(chosen.data, chosen.cache, build_pack.SEED, **made).save(path)
    return DomainPack.load(path, encoder_fingerprint=encoder.packs_of)


class Corpus:
    """One corpus: its classifiers, its test documents and the tables over them."""

    def __init__(
        self,
        title: str,
        packs: dict[str, DomainPack],
        labelled: DomainPack,
        general: DomainPack,
        encoder: Encoder | IntegerEncoder,
        chosen: argparse.Namespace,
    ) -> None:
        source = SOURCES[title]
        self.title = title
        train, self.texts = (
            source.read(chosen.data, split, round(chosen.share * count))
            for split, count in (("train", source.train), ("test", source.test))
        )
        test = public_text.embed(self.texts, encoder, chosen.cache, f"{source.name}-test")
        self.documents, self.labels = test.documents(), test.labels
        own = {OWN: packs[title], GENERAL: general}
        self.classifiers = Classifiers(own, public_text.embed(train, encoder, chosen.cache, f"{source.name}-train"))
        draws = np.random.default_rng(0)
        self.methods = [
            shipped("sentence_codes", LABELLED, labelled),
            *(shipped("sentence_codes", f"pack of {other}", packs[other]) for other in packs if other != title),
            *(method for name, pack in own.items() for method in of_pack(name, pack, draws)),
            *baselines(self.classifiers.box, draws),
        ]

    def cell(
        self, method: Method, epsilon: float, trials: int, members: Sequence[int] | None = None, k: int = 0
    ) -> Cell:
        """Macro-F1 of a method on the test documents, or on the first k sentences of `members`."""
        chosen = range(len(self.documents)) if members is None else members
        documents, labels = [self.documents[i][: k or None] for i in chosen], [self.labels[i] for i in chosen]
        vectors = (method.release(documents, epsilon) for _ in range(trials if method.random else 1))
        results = [self.classifiers.score(method.space, each, labels) for each in vectors]
        return Cell.of(results, random=method.random)

    def against_epsilon(self, trials: int) -> Table:
        table = Table(self.title, EPSILONS)
        for method in self.methods:
            epsilons = EPSILONS if method.private else EPSILONS[:1]
            cells = [self.cell(method, epsilon, trials) for epsilon in epsilons]
            table.rows[method.name] = Row(method.protects, cells if method.private else cells * len(EPSILONS))
        return table

    def against_length(self, trials: int) -> Table:
        chosen = {k: [i for i, document in enumerate(self.documents) if len(document) >= k] for k in LENGTHS}
        counts = ", ".join(str(len(members)) for members in chosen.values())
        table = Table(f"{self.title}, eps {LENGTHS_EPSILON}, {counts} documents", LENGTHS, what="k")
        for method in self.methods:
            cells = [self.cell(method, LENGTHS_EPSILON, trials, members, k) for k, members in chosen.items()]
            table.rows[method.name] = Row(method.protects, cells)
        return table

    def words(self, mechanism: WordMechanism, count: int, trials: int) -> tuple[Table, Row]:
        """Word-level metric DP on the first `count` documents: against epsilon, and the row against k.

        Sentences are encoded one by one, so one pass over the longest documents serves every k.
        """
        table = Table(f"{self.title}, first {count} documents", WORD_EPSILONS)
        source = np.random.default_rng(1)
        cells, kept = [], []
        for epsilon in WORD_EPSILONS:
            runs = [mechanism.release(self.texts[:count], epsilon, source) for _ in range(trials)]
            cells.append(Cell.of([self._score_means(documents, self.labels[:count]) for documents, _ in runs]))
            kept.append(Cell.of([share for _, share in runs], random=False))
        clean = Cell.of([self._score_means(self.documents[:count], self.labels[:count])], random=False)
        table.rows[WORDS] = Row(BY_WORD, cells)
        table.rows["share of words unchanged"] = Row("", kept)
        table.rows[NON_PRIVATE] = Row("nothing", [clean] * len(cells))
        longest = [i for i, text in enumerate(self.texts) if len(text.sentences) >= max(LENGTHS)][:count]
        texts, labels = [self.texts[i] for i in longest], [self.labels[i] for i in longest]
        runs = [mechanism.release(texts, LENGTHS_EPSILON, source)[0] for _ in range(trials)]
        by_k = [[self._score_means([each[:k] for each in documents], labels) for documents in runs] for k in LENGTHS]
        return table, Row(f"{BY_WORD}; {len(longest)} documents", [Cell.of(results) for results in by_k])

    def _score_means(self, documents: Documents, labels: Sequence[str]) -> float:
        return self.classifiers.score("encoder", means(documents), labels)


def gap_closed(table: Table) -> None:
    """Print how much of the gap between `deep_candidate` and the non-private mean `sentence_codes` closes."""
    clean = table.rows[NON_PRIVATE].cells[0].mean
    for pack in (OWN, GENERAL):
        ours, theirs = (table.rows[f"{name}, {pack}"].cells for name in ("sentence_codes", "deep_candidate"))
        shares = [(a.mean - b.mean) / (clean - b.mean) for a, b in zip(ours, theirs, strict=True)]
        closed = ", ".join(f"{share:.0%} at eps {epsilon}" for share, epsilon in zip(shares, EPSILONS, strict=True))
        print(f"{table.title}, {pack}: sentence_codes closes {closed} of the gap from deep_candidate to non-private")


def main() -> None:
    chosen = arguments(
        __doc__,
        needs_data=True,
        cache=CACHE,
        packs=(Path, "folder of the corpora's own packs; default: the cache"),
        encoder=("floating", ", ".join(ENCODERS)),
        share=(1.0, "of the documents that are read by default"),
        trials=5,
        word_documents=(200, "0 leaves word-level metric DP out"),
        word_trials=2,
        figures=(Path, "folder for the SVGs"),
    )
    encoder = ENCODERS[chosen.encoder]()
    general = DomainPack.load(pack_paths(None)["general"], encoder_fingerprint=encoder.packs_of)
    packs, labelled = (
        {title: own_pack(title, encoder, chosen, labels) for title in SOURCES} for labels in (False, True)
    )
    corpora = [Corpus(title, packs, labelled[title], general, encoder, chosen) for title in SOURCES]
    by_epsilon = {corpus.title: corpus.against_epsilon(chosen.trials) for corpus in corpora}
    for table in by_epsilon.values():
        table.show()
        gap_closed(table)
    by_length = {corpus.title: corpus.against_length(chosen.trials) for corpus in corpora}
    if chosen.word_documents:
        words = WordMechanism(Encoder())
        for corpus in corpora:
            table, by_length[corpus.title].rows[WORDS] = corpus.words(words, chosen.word_documents, chosen.word_trials)
            row = table.rows[WORDS]
            by_epsilon[corpus.title].rows[WORDS] = Row(row.about, row.cells[: len(EPSILONS)])
            table.show()
    for table in by_length.values():
        table.show()
    if chosen.figures:
        for tables, name, xlabel in (
            (by_epsilon, "against-epsilon.svg", "epsilon (each document's own k)"),
            (by_length, "against-k.svg", f"sentences k (epsilon {LENGTHS_EPSILON})"),
        ):
            draw(tables, chosen.figures / name, STYLES, xlabel=xlabel, ylabel="macro-F1")


if __name__ == "__main__":
    main()

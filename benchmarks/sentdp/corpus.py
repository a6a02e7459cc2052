"""One corpus of the comparison: its documents, packs, classifiers and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.sentdp.methods import GENERAL, NON_PRIVATE, OWN, Classifiers, Documents, Method, methods
from benchmarks.sentdp.table import Cell, Row, Table
from benchmarks.sentdp.words import WordMechanism
from core.mechanisms.sentences.domain_pack import DomainPack
from gpu_workers.domains import build_pack
from gpu_workers.domains.spec import STEPS_MAX, Embedded
from gpu_workers.models.encoder import Encoder
from training import public_text, shipped_packs
from training.public_text import Document

EPSILONS = (3, 6, 10, 25)
WORD_EPSILONS = (*EPSILONS, 50, 100, 200)
LENGTHS = (4, 8, 12, 16, 24)
LENGTHS_EPSILON = 10
SHARE_EPSILONS = (3, 10)
WORDS = "word-level metric DP"


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


def own_pack(
    title: str, encoder: Encoder, folder: Path, data: Path, cache: Path, *, labelled: bool = False
) -> DomainPack:
    """The pack of the training split: read from `folder`, or built into it. Labels: the group, the sentiment."""
    source = SOURCES[title]
    path = folder / f"{source.pack}{'-labelled' if labelled else ''}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        corpora = (f"{source.name}-train",)
        pack = shipped_packs.build(
            data, cache, build_pack.SEED, name=source.pack, corpora=corpora, labelled=labelled, steps=STEPS_MAX
        )
        pack.save(path)
    return DomainPack.load(path, encoder_fingerprint=encoder.packs_of)


class Corpus:
    """One corpus: its classifiers, its test documents and the tables over them."""

    def __init__(
        self,
        title: str,
        packs: Mapping[str, DomainPack],
        labelled: DomainPack,
        encoder: Encoder,
        data: Path,
        cache: Path,
    ) -> None:
        source = SOURCES[title]
        self.title = title
        train = public_text.embed(source.read(data, "train", source.train), encoder, cache, f"{source.name}-train")
        self.texts = source.read(data, "test", source.test)
        test: Embedded = public_text.embed(self.texts, encoder, cache, f"{source.name}-test")
        self.documents, self.labels = test.documents(), test.labels
        self.classifiers = Classifiers(packs, train)
        self.methods = methods(packs, labelled, self.classifiers.box)

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
        table = Table(self.title, EPSILONS, [f"eps {epsilon}" for epsilon in EPSILONS])
        for method in self.methods:
            epsilons = EPSILONS if method.private else EPSILONS[:1]
            cells = [self.cell(method, epsilon, trials) for epsilon in epsilons]
            table.rows[method.name] = Row(method.protects, cells if method.private else cells * len(EPSILONS))
        return table

    def against_length(self, trials: int) -> Table:
        chosen = {k: [i for i, document in enumerate(self.documents) if len(document) >= k] for k in LENGTHS}
        heads = [f"k {k} ({len(members)} documents)" for k, members in chosen.items()]
        table = Table(f"{self.title}, eps {LENGTHS_EPSILON}", LENGTHS, heads)
        for method in self.methods:
            cells = [self.cell(method, LENGTHS_EPSILON, trials, members, k) for k, members in chosen.items()]
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
        table.rows[NON_PRIVATE] = Row("nothing", [clean] * len(cells))
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
    """How much of the gap between `deep_candidate` and the non-private mean `sentence_codes` closes, for each pack."""
    clean = table.rows[NON_PRIVATE].cells[0].mean
    lines = []
    for pack in (OWN, GENERAL):
        shares = []
        for epsilon in SHARE_EPSILONS:
            at = EPSILONS.index(epsilon)
            ours, theirs = (
                table.rows[f"{name}, {pack}"].cells[at].mean for name in ("sentence_codes", "deep_candidate")
            )
            shares.append(f"{(ours - theirs) / (clean - theirs):.0%} at eps {epsilon}")
        lines.append(
            f"{table.title}, {pack}: sentence_codes closes {', '.join(shares)} of the gap from deep_candidate to "
            "non-private"
        )
    return "\n".join(lines)

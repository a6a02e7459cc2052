"""Figure 4 and Table 1 of Meehan, Mrini and Chaudhuri 2022 on 20 Newsgroups (7 topics) and IMDB: macro-F1 of releases.

    python -m benchmarks.sentdp --data DATA [--trials 5] [--documents 8000] [--figures FOLDER]

Test documents of at least 2 sentences, the first 40 used, and beside them those of at least 8. Every release of a
document serves all tables: against epsilon, and at epsilon 10 against the document's own number of sentences k, in
bins. Two classifiers, a linear one and the paper's network, are trained on clean means of training documents, in the
space in which a row's mechanism releases. Mean and standard deviation over trials of the mechanism.

Packs: the shipped `general`; the shipped pack for the kind of text (`forums`, `reviews`); `general` with candidates,
recoder and projections of `deep_candidate` at the settings of the paper. No vector, code or candidate comes from a test
document; the numbers of codes of the shipped packs were chosen on test documents.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import f1_score

from benchmarks.kit import CACHE, Cell, Row, Table, arguments, draw, head, row
from benchmarks.sentdp.methods import (
    NON_PRIVATE,
    PAPER,
    Documents,
    Features,
    Method,
    WordMechanism,
    baselines,
    classifier,
    means,
    of_packs,
    paper_pack,
)
from core.amounts import NANO
from core.mechanisms.sentences.deep_candidate import DeepCandidate
from core.mechanisms.sentences.domain_pack import DomainPack
from gpu_workers.domains.build_pack import select
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.integer.encoder import IntegerEncoder
from gpu_workers.packs import pack_paths
from training import public_text

EPSILONS = (3, 6, 10, 15, 25, 30)
WORD_EPSILONS = (*EPSILONS, 100, 200)
SENTENCES_USED, TRAIN_SENTENCES = 40, 16
BINS = (2, 4, 6, 9, 12, 16, 21, 31, SENTENCES_USED + 1)  # of k, each to the next
BINS_EPSILON = 10
HELD_SHARE = 0.1  # of the training documents: they choose the projections of the paper's settings
TABLE_1 = ((3, 55, 5), (6, 25, 3), (10, 5, 2), (23, 1, 1))  # epsilon, candidates, their depth
TABLE_1_CANDIDATES, TABLE_1_PROJECTIONS = 5_000, 10
GENERAL, KIND, WORDS = "general", "kind", "word-level metric DP"
STYLES = {
    f"sentence_codes, {KIND}": "#e0559a o-",
    f"sentence_codes, {GENERAL}": "#e0559a s:",
    f"deep_candidate, {KIND}": "#c0392b s:",
    f"deep_candidate, {PAPER}": "#c0392b o-",
    "truncation": "#8e6bbf o-",
    "mean_laplace": "#d08c1d o-",
    WORDS: "#2e8b57 o-",
    NON_PRIVATE: "black --",
    "random guess": "#999999 --",
}
ENCODERS = {"int8": IntegerEncoder, "bfloat16": partial(Encoder, dtype=torch.bfloat16)}
Guesses = npt.NDArray[np.str_]


# The name in the cache, the shipped pack for this kind of text, and the reader.
SOURCES = {
    "20 Newsgroups": ("20news", "forums", public_text.newsgroups),
    "IMDB": ("imdb", "reviews", public_text.imdb),
}


class Corpus:
    """One corpus: its classifiers, its test documents, and what the classifiers guess of each release."""

    def __init__(
        self, title: str, packs: dict[str, DomainPack], encoder: Encoder | IntegerEncoder, chosen: argparse.Namespace
    ) -> None:
        name, kind, read = SOURCES[title]
        self.title = title
        self.texts = read(chosen.data, "test", chosen.documents, 2, SENTENCES_USED)
        known = read(chosen.data, "train", chosen.train, 2, TRAIN_SENTENCES)
        test = public_text.embed(self.texts, encoder, chosen.cache, f"{name}-test")
        self.documents, self.lengths, self.labels = test.documents(), test.lengths, np.array(test.labels)
        public = public_text.embed(known, encoder, chosen.cache, f"{name}-train")
        count = round((1 - HELD_SHARE) * len(known))
        train, held = (select(public, rows) for rows in np.split(np.arange(len(known)), [count]))
        own = {GENERAL: packs[GENERAL], KIND: packs[kind]}
        own[PAPER] = paper_pack(packs[GENERAL], train, held, EPSILONS)
        self.pack = own[PAPER]
        features = Features(own, train)
        self._heads = {
            name: {space: classifier(rows, train.labels, network=network) for space, rows in features.rows.items()}
            for name, network in (("linear", False), ("network", True))
        }
        shares = np.unique(train.labels, return_counts=True)[1] / len(train.labels)
        self._chance = Cell(float(shares @ shares))
        self._methods = [*of_packs(own), *baselines(features.box, np.random.default_rng(0))]
        self._trials = chosen.trials
        self.guesses = {each.name: {eps: self._guessed(each, eps) for eps in EPSILONS} for each in self._methods}

    def _guessed(self, method: Method, epsilon: float) -> dict[str, list[Guesses]]:
        """By classifier, the label of each test document in each trial."""
        made = method.release(self.documents, epsilon, self._trials)
        return {name: [heads[method.space].predict(each) for each in made] for name, heads in self._heads.items()}

    def against_epsilon(self, name: str, least: int) -> Table:
        """The classifier `name` on documents of at least `least` sentences."""
        kept = self.lengths >= least
        table = Table(f"{self.title}, {name}, {kept.sum()} documents of k >= {least}", EPSILONS)
        return self._filled(table, name, [(epsilon, kept) for epsilon in EPSILONS])

    def against_length(self, name: str) -> Table:
        bins = [(self.lengths >= first) & (self.lengths < after) for first, after in pairwise(BINS)]
        counts = ", ".join(str(kept.sum()) for kept in bins)
        table = Table(f"{self.title}, {name}, eps {BINS_EPSILON}; {counts} documents", BINS[:-1], what="k from")
        return self._filled(table, name, [(BINS_EPSILON, kept) for kept in bins])

    def _filled(self, table: Table, name: str, columns: Sequence[tuple[float, npt.NDArray[np.bool_]]]) -> Table:
        for method in self._methods:
            own = self.guesses[method.name]
            cells = [_cell(self.labels, own[epsilon][name], kept) for epsilon, kept in columns]
            table.rows[method.name] = Row(method.protects, cells)
        table.rows["random guess"] = Row("everything", [self._chance] * len(columns))
        return table

    def words(self, mechanism: WordMechanism, count: int, trials: int) -> Table:
        """Word-level metric DP on the first `count` documents, by the network."""
        table = Table(f"{self.title}, network, first {count} documents", WORD_EPSILONS)
        source, labels, head = np.random.default_rng(1), self.labels[:count], self._heads["network"]["encoder"]
        runs = [[mechanism.release(self.texts[:count], eps, source) for _ in range(trials)] for eps in WORD_EPSILONS]

        def cell(runs: Sequence[Documents]) -> Cell:
            return _cell(labels, [head.predict(means(documents)) for documents in runs])

        table.rows[WORDS] = Row("one word, by distance (weaker)", [cell([made for made, _ in run]) for run in runs])
        table.rows["share of words unchanged"] = Row("", [Cell.of([kept for _, kept in run]) for run in runs])
        table.rows["eps per unit of distance"] = Row("", [Cell(eps / mechanism.unit) for eps in WORD_EPSILONS])
        table.rows[NON_PRIVATE] = Row("nothing", [cell([self.documents[:count]])] * len(runs))
        return table

    def conditions(self, epsilon: float, candidates: int, depth: int) -> float:
        """The share of test documents of at least 8 sentences of which so many of 5,000 candidates of the paper's
        settings, or the same share of fewer, have at least this depth."""
        first = self.pack.info.mechanism_parameters[0]
        rows = (replace(first, projections=TABLE_1_PROJECTIONS),)
        mechanism = DeepCandidate(replace(self.pack, info=replace(self.pack.info, mechanism_parameters=rows)))
        needed = candidates * first.depth_candidates / TABLE_1_CANDIDATES
        long = [torch.from_numpy(each) for each in self.documents if len(each) >= 8]
        scores = [mechanism.scores([each], [round(epsilon * NANO)])[0] for each in long]
        deep = [((len(each) + own) // 2 >= depth).sum() for each, own in zip(long, scores, strict=True)]
        return float(np.mean(np.array(deep) >= needed))


def _cell(labels: Guesses, guesses: Sequence[Guesses], kept: npt.NDArray[np.bool_] | slice = slice(None)) -> Cell:
    scores = [f1_score(labels[kept], each[kept], average="macro") for each in guesses]
    return Cell.of(scores, random=len(scores) > 1)


def table_1(corpora: Sequence[Corpus]) -> None:
    """Print Eq. 4 at the conditions of Table 1, and how often they hold."""
    print()
    head("eps", "candidates of 5,000", "of depth", "P(such a release)", *(f"{each.title} has them" for each in corpora))
    for epsilon, candidates, depth in TABLE_1:
        weight = candidates * math.exp(epsilon * depth / 2)
        share = weight / (weight + TABLE_1_CANDIDATES - candidates)
        held = (f"{corpus.conditions(epsilon, candidates, depth):.3f}" for corpus in corpora)
        row(epsilon, candidates, depth, f"{share:.3f}", *held)


def main() -> None:
    chosen = arguments(
        __doc__,
        needs_data=True,
        cache=CACHE,
        encoder=("int8", ", ".join(ENCODERS)),
        documents=(8_000, "of each test split, at most"),
        train=(5_000, "documents of each training split, at most"),
        trials=5,
        word_documents=(80, "of each test split, for word-level metric DP"),
        word_trials=1,
        figures=(Path, "folder for the SVG"),
    )
    encoder = ENCODERS[chosen.encoder]()
    packs = {name: DomainPack.load(path, encoder_fingerprint=encoder.packs_of) for name, path in pack_paths().items()}
    corpora = [Corpus(title, packs, encoder, chosen) for title in SOURCES]
    words, panes = WordMechanism(encoder), {}
    for corpus in corpora:
        for name in ("linear", "network"):
            for least in (2, 8):
                corpus.against_epsilon(name, least).show()
            corpus.against_length(name).show()
        counts = ", ".join(str(each.projections) for each in corpus.pack.info.mechanism_parameters)
        print(f"\nsettings of the paper: {corpus.pack.info.candidates} candidates; projections by epsilon {counts}")
        by_word = corpus.words(words, chosen.word_documents, chosen.word_trials)
        by_word.show()
        panes[f"{corpus.title}: epsilon"] = corpus.against_epsilon("network", 2)
        panes[f"{corpus.title}: epsilon"].rows[WORDS] = Row("", by_word.rows[WORDS].cells[: len(EPSILONS)])
        panes[f"{corpus.title}: k from, epsilon {BINS_EPSILON}"] = corpus.against_length("network")
    table_1(corpora)
    if chosen.figures:
        draw(panes, chosen.figures / "figure-4.svg", STYLES, xlabel="", ylabel="macro-F1")


if __name__ == "__main__":
    main()

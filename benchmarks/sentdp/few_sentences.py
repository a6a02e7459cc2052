"""Macro-F1 of releases of single sentences, and of packs that are chosen for each document (`auto`).

    python -m benchmarks.sentdp.few_sentences --data DATA [--trials 2] [--documents 1200]

The first sentence and the first 24 of test documents of 20 Newsgroups (7 topics) and IMDB (sentiment), questions of
TREC (6 types) and sentences of customer reviews (sentiment). No text of them is in a pack; test documents chose the
numbers of codes. The score is the mean over 5 folds of a logistic regression trained and tested on releases. Rows: the
mechanisms that protect one sentence, with the `general` pack; `sentence_codes` with each other installed pack, and with
`auto`, beside the share of documents that got each pack at the largest epsilon; at k = 1 the trained codebook of
`/embed/vector`, which has the same guarantee; and `sentence_codes` on windows of words, which protects a word.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.kit import CACHE, Cell, Row, Table, arguments
from benchmarks.sentdp.methods import Documents, FloatArray, means
from benchmarks.sentdp.retrieval import VECTOR, methods, releasing
from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS
from core.mechanisms.sentences.routes import AUTO, Routes
from core.mechanisms.sentences.routing import RoutedCodes, Router
from core.mechanisms.sentences.sentence_codes import SentenceCodes
from core.mechanisms.vectors.projection import VectorPack
from core.text.segment import windows
from gpu_workers.models.integer.encoder import IntegerEncoder
from gpu_workers.packs import VECTOR_PACK, pack_paths, routes_path
from training import public_text
from training.public_text import Document

EPSILONS = (1, 3, 6, 10)
LENGTHS = (1, 24)
WINDOW_WORDS, FOLDS = 12, 5
SOURCES = {
    "20news-test": partial(public_text.newsgroups, split="test", least=2, most=40),
    "imdb-test": partial(public_text.imdb, split="test", least=2, most=40),
    "trec": partial(public_text.labelled_sentences, path="senteval/trec6_test.jsonl.gz"),
    "customer-reviews": partial(public_text.labelled_sentences, path="senteval/cr_all.jsonl.gz"),
}
Release = Callable[[Documents, float], tuple[FloatArray, str]]


def score(vectors: FloatArray, labels: list[str]) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500, C=0.01))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    return float(cross_val_score(model, vectors, labels, cv=folds, scoring="f1_macro").mean())


def rows_of(packs: dict[str, DomainPack], routes: Routes, vectors: VectorPack) -> dict[str, Release]:
    """The rows by name. Each returns the vectors, and what it says of the packs."""
    kept = {name for name, each in SENTENCE_MECHANISMS.items() if each.protects == "sentence"} | {VECTOR}
    releases = {each.name: each.release for each in methods(packs["general"], vectors) if each.name in kept}
    codes = {name: SentenceCodes(pack) for name, pack in packs.items()}
    releases |= {f"sentence_codes, {name}": releasing(own) for name, own in codes.items() if name != "general"}
    routed = RoutedCodes(Router(routes), codes)

    def chosen(documents: Documents, epsilon: float) -> tuple[FloatArray, str]:
        texts = [torch.from_numpy(document) for document in documents]
        made, names = routed.release(texts, [round(epsilon * NANO)] * len(texts))
        return made, ", ".join(f"{name} {count / len(texts):.2f}" for name, count in Counter(names).most_common())

    named = {name: lambda documents, epsilon, own=own: (own(documents, epsilon), "") for name, own in releases.items()}
    return {**named, AUTO: chosen}


def main() -> None:
    further = (Path, "folder of further packs, as PRIVACY_GATEWAY_PACKS_DIR")
    options = arguments(__doc__, needs_data=True, cache=CACHE, packs=further, trials=2, documents=1_200)
    encoder, routes, paths = IntegerEncoder(), Routes.load(routes_path(options.packs)), pack_paths(options.packs)
    load = partial(DomainPack.load, encoder_fingerprint=encoder.packs_of)
    packs = {name: load(paths[name]) for name in routes.info.packs}
    rows = rows_of(packs, routes, VectorPack.load(VECTOR_PACK, encoder_fingerprint=encoder.packs_of))
    for title, read in SOURCES.items():
        texts = read(options.data, limit=options.documents)
        corpus = public_text.embed(texts, encoder, options.cache, title)
        labels, is_long = corpus.labels, corpus.lengths.mean() > 2
        for k in LENGTHS if is_long else LENGTHS[:1]:
            cut = [document[:k] for document in corpus.documents()]
            table = Table(f"{title}, first {k}, {len(cut)} documents", EPSILONS, about="documents' packs")
            for name, release in rows.items():
                if name == VECTOR and k > 1:
                    continue
                runs = [[release(cut, epsilon) for _ in range(options.trials)] for epsilon in EPSILONS]
                cells = [Cell.of([score(vectors, labels) for vectors, _ in run]) for run in runs]
                table.rows[name] = Row(runs[-1][-1][1], cells)
            if k > 1:
                words = [Document(windows(" ".join(each.sentences[:k]), WINDOW_WORDS)) for each in texts]
                units = public_text.embed(words, encoder, options.cache, f"{title}-windows").documents()
                cells = [Cell.of([score(rows["sentence_codes"](units, epsilon)[0], labels)]) for epsilon in EPSILONS]
                table.rows[f"sentence_codes, windows of {WINDOW_WORDS} words"] = Row("one word", cells)
            clean = Cell.of([score(means(cut), labels)], random=False)
            table.rows["non-private"] = Row("", [clean] * len(EPSILONS))
            table.show()


if __name__ == "__main__":
    main()

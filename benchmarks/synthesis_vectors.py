"""Synthetic document vectors: classifiers of topics trained on them, tested on real documents.

    python -m benchmarks.synthesis_vectors --data DATA [--epsilons 1 3 10] [--runs 2] [--only pearl ...]

20 Newsgroups, seven topics as the label, mean vectors of a document's first sentences. For `pearl` and `marginals` the
whole collection is one table: 32 coordinates on the public principal axes of the shipped vector pack, clipped to twice
the deviation of the shipped pack's public sentences; one document is replaced. Beside them each document released by
itself, as `/embed/sentdp` does it, which hides a sentence or a document from whoever collects them. Macro-F1 of a
logistic regression on standardised vectors, on clean test vectors of the row's own space.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.sentdp.methods import shipped
from core.mechanisms.sentences.deep_candidate import Recoder
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.vectors.projection import VectorPack
from core.synthesis.encoding import STEPS, EncodedTable, unit_vectors
from core.synthesis.marginals_release import marginals_release
from core.synthesis.pearl_release import FREQUENCIES_MAX, pearl_release
from core.synthesis.pricing import record_budget
from core.synthesis.schema import table_schema
from gpu_workers.domains.spec import Embedded
from gpu_workers.models.encoder import Encoder
from gpu_workers.synthesis.reconstruction import train_generator
from training import public_text
from training.public_text import Document

SENTENCES = 6  # the first ones of a document
TRAIN, TEST = 8_000, 1_500
DIMENSIONS = 32
DEVIATIONS = 2.0
DELTA = 1e-5
BINS = 16
PACKS = Path(__file__).parent.parent / "gpu_workers" / "packs"
CACHE = Path(tempfile.gettempdir()) / "privacy-gateway-embeddings"


def read(data: Path, split: str, limit: int, encoder: Encoder, cache: Path) -> Embedded:
    documents = [
        Document(each.sentences[:SENTENCES], each.label) for each in public_text.newsgroups(data, split, limit)
    ]
    return public_text.embed(documents, encoder, cache, f"20news-short-{split}")


class Projected:
    """Vectors as rows of a declared table, and back."""

    def __init__(self, pack: DomainPack, axes: VectorPack, topics: list[str]) -> None:
        self._axes, self._centre = axes.axes[:DIMENSIONS], axes.centre
        public = (pack.candidates - self._centre) @ self._axes.T
        self._low = public.mean(axis=0) - DEVIATIONS * public.std(axis=0)
        self._span = 2 * DEVIATIONS * public.std(axis=0)
        numbers = [{"name": f"v{i}", "kind": "numeric", "minimum": 0, "maximum": 1} for i in range(DIMENSIONS)]
        label = {"name": "topic", "kind": "categorical", "categories": topics}
        self.schema = table_schema({"columns": numbers, "label": label})
        self._topics = topics

    def table(self, means: np.ndarray, labels: list[str]) -> EncodedTable:
        places = ((means - self._centre) @ self._axes.T - self._low) / self._span
        codes = np.rint(np.clip(places, 0, 1) * STEPS).astype(np.int16)
        return EncodedTable(self.schema, codes, np.array([self._topics.index(each) for each in labels], dtype=np.int16))


def macro_f1(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    return float(f1_score(y_test, model.fit(x, y).predict(x_test), average="macro"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--frequencies", type=int, default=FREQUENCIES_MAX)
    parser.add_argument("--only", nargs="+")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    encoder = Encoder()
    pack = DomainPack.load(PACKS / "general.safetensors", encoder_fingerprint=encoder.packs_of)
    axes = VectorPack.load(PACKS / "vectors" / "general.safetensors", encoder_fingerprint=encoder.packs_of)
    train, test = (read(options.data, *part, encoder, options.cache) for part in (("train", TRAIN), ("test", TEST)))
    projected = Projected(pack, axes, sorted(set(test.labels)))
    table, tested = projected.table(train.means(), train.labels), projected.table(test.means(), test.labels)
    print(f"{len(table)} documents, {len(tested)} to test, {len(projected.schema.label.categories)} topics")

    def of_table(made: EncodedTable) -> float:
        rows, clean = (unit_vectors(each.schema, each.codes) / STEPS for each in (made, tested))
        return macro_f1(rows, made.labels, clean, tested.labels)

    recode = Recoder(pack.recoder, torch.device("cpu"))

    def clean_test(space: str) -> np.ndarray:
        if space == "encoder":
            return test.means()
        return np.stack([recode(torch.from_numpy(each)).numpy().mean(axis=0) for each in test.documents()])

    def pearl(epsilon: float) -> float:
        budget = record_budget(epsilon, DELTA)
        release = pearl_release(table, frequencies=options.frequencies, budget=budget, rows_are_public=True)
        return of_table(train_generator(release).sample(len(table)))

    def marginals(epsilon: float) -> float:
        budget = record_budget(epsilon, DELTA)
        return of_table(marginals_release(table, bins=BINS, budget=budget, rows_are_public=True).sample(len(table)))

    def sentdp(name: str) -> Callable[[float], float]:
        method = shipped(name, "general pack", pack)
        clean = clean_test("encoder" if method.space == "encoder" else "recoded")

        def score(epsilon: float) -> float:
            released = np.asarray(method.release(train.documents(), epsilon))
            return macro_f1(released, np.array(train.labels), clean, np.array(test.labels))

        return score

    print(
        f"| real, 384 dimensions | {macro_f1(train.means(), np.array(train.labels), test.means(), test.labels):.3f} |"
    )
    print(f"| real, {DIMENSIONS} dimensions, clipped | {of_table(table):.3f} |", flush=True)
    rows = {"pearl": pearl, "marginals": marginals}
    rows |= {name: sentdp(name) for name in ("sentence_codes", "document_selection")}
    for name, score in rows.items():
        if options.only and name not in options.only:
            continue
        start, cells = time.monotonic(), []
        for epsilon in options.epsilons:
            found = [score(epsilon) for _ in range(options.runs)]
            cells.append(f"{np.mean(found):.3f} ± {np.std(found):.3f}")
        print(f"| {name} | {' | '.join(cells)} | {time.monotonic() - start:.0f} s |", flush=True)


if __name__ == "__main__":
    main()

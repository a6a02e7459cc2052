"""Macro-F1 of `sentence_codes` by how a text is cut into units, on 20 Newsgroups (7 topics) and IMDB.

    python -m benchmarks.sentdp.segmentation --data DATA [--trials 5]

Every row releases the same text: the first 24 sentences of test documents that have at least 8. A row's logistic
regression is trained on clean mean embeddings of public training documents that are cut in the row's own way.

* sentences: the gateway's segmentation of raw text; protects a sentence, and no token.
* windows of at most w words: protects a word, at the same epsilon.
* n slots: sentences by a rule that looks at one word at a time (a word that ends with `.`, `!` or `?` ends a sentence),
  the first n of them, filled up with a neutral vector where there are fewer. Replacing one word changes at most two
  slots, in whatever order they are, so each slot has half of epsilon. It protects a word, and hides the number of
  sentences. Not offered by the gateway.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.sentdp.baselines import FloatArray
from benchmarks.sentdp.corpus import SOURCES, Source
from benchmarks.sentdp.methods import Documents, classifier, macro_f1
from benchmarks.sentdp.table import Cell, Row, Table
from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import sentence_mechanism
from core.mechanisms.sentences.release import SentenceMechanism
from core.text.segment import windows
from gpu_workers.domains.spec import Embedded
from gpu_workers.models.encoder import Encoder
from training import public_text
from training.public_text import Document

EPSILONS = (3, 10, 25)
WINDOWS = (8, 12, 16, 24)
SLOTS = (16,)
PACK = Path(__file__).parents[2] / "gpu_workers" / "packs" / "general.safetensors"
CACHE = Path(tempfile.gettempdir()) / "privacy-gateway-embeddings"
_CLOSING = "\"')]}»”’"


@dataclass(frozen=True)
class Segmentation:
    """`cut` makes the units of a text given as sentences; `slots` is their fixed number, 0 where it is public."""

    name: str
    protects: str
    cut: Callable[[Document], list[str]]
    slots: int = 0

    @property
    def unit_share(self) -> float:
        """Which part of epsilon each unit has."""
        return 0.5 if self.slots else 1.0


def ended_by_words(text: str) -> list[str]:
    """Sentences whose ends depend on one word each."""
    found: list[list[str]] = [[]]
    for word in text.split():
        found[-1].append(word)
        if word.rstrip(_CLOSING).endswith((".", "!", "?")):
            found.append([])
    return [" ".join(words) for words in found if words]


def segmentations() -> Iterator[Segmentation]:
    yield Segmentation("sentences", "one sentence, no token", lambda document: document.sentences)
    for size in WINDOWS:
        yield Segmentation(
            f"windows of {size} words", "one word", lambda document, size=size: windows(_text(document), size)
        )
    for slots in SLOTS:
        yield Segmentation(
            f"{slots} slots",
            "one word; hides the number of sentences",
            lambda document, slots=slots: ended_by_words(_text(document))[:slots],
            slots,
        )


def _text(document: Document) -> str:
    return " ".join(document.sentences)


def _embedded(
    segmentation: Segmentation, documents: list[Document], encoder: Encoder, cache: Path, name: str
) -> Embedded:
    cut = [Document(segmentation.cut(document), document.label) for document in documents]
    return public_text.embed(cut, encoder, cache, f"{name}-{segmentation.name.replace(' ', '-')}")


def _released(
    mechanism: SentenceMechanism, segmentation: Segmentation, documents: Documents, epsilon: float
) -> FloatArray:
    rows = [torch.from_numpy(_padded(document, segmentation.slots, mechanism.pack.centre)) for document in documents]
    nano = round(epsilon * segmentation.unit_share * NANO)
    return mechanism.release(rows, [nano] * len(rows))


def _padded(document: FloatArray, slots: int, neutral: FloatArray) -> FloatArray:
    missing = max(0, slots - len(document))
    return np.concatenate([document, np.repeat(neutral[None], missing, axis=0)]).astype(np.float32)


def compared(
    title: str,
    source: Source,
    pack: DomainPack,
    encoder: Encoder,
    data: Path,
    cache: Path,
    counts: tuple[int, int, int],
) -> Table:
    """The table of one corpus; `counts` are training documents, test documents and trials."""
    train_count, test_count, trials = counts
    mechanism = sentence_mechanism("sentence_codes", pack)
    train = source.read(data, "train", train_count)
    test = source.read(data, "test", test_count)
    table = Table(title, EPSILONS, [f"eps {epsilon}" for epsilon in EPSILONS] + ["non-private", "units a document"])
    for segmentation in segmentations():
        public = _embedded(segmentation, train, encoder, cache, f"{source.name}-train")
        private = _embedded(segmentation, test, encoder, cache, f"{source.name}-test")
        model = classifier(public.means(), public.labels)
        cells = []
        for epsilon in EPSILONS:
            released = (_released(mechanism, segmentation, private.documents(), epsilon) for _ in range(trials))
            cells.append(Cell.of([macro_f1(model, vectors, private.labels) for vectors in released]))
        cells.append(Cell.of([macro_f1(model, private.means(), private.labels)], random=False))
        cells.append(Cell.of(private.lengths, random=False))
        table.rows[segmentation.name] = Row(segmentation.protects, cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--pack", type=Path, default=PACK)
    parser.add_argument("--train", type=int, default=800, help="training documents")
    parser.add_argument("--test", type=int, default=800, help="test documents")
    parser.add_argument("--trials", type=int, default=5)
    chosen = parser.parse_args()
    encoder = Encoder()
    pack = DomainPack.load(chosen.pack, encoder_fingerprint=encoder.packs_of)
    for title, source in SOURCES.items():
        counts = chosen.train, chosen.test, chosen.trials
        table = compared(title, source, pack, encoder, chosen.data, chosen.cache, counts)
        print(f"\n{table.markdown()}", flush=True)


if __name__ == "__main__":
    main()

"""Packs that a domain job would build from few documents: utility of `sentence_codes`, with and without labels.

    python -m benchmarks.sentdp.few_documents --data DATA --cache CACHE

Each line has macro-F1 on the corpus's test split, of the classifiers of the comparison (`methods`), and the processor
time of the pack. `alone` is a pack without the space of the `general` pack, as for an encoder of the caller's own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.sentdp.corpus import SOURCES
from benchmarks.sentdp.methods import classifier, macro_f1, shipped
from core.mechanisms.sentences.domain_pack import DomainPack
from gpu_workers.domains.build_pack import SEED, build_pack, known_space, select
from gpu_workers.domains.job import DOCUMENTS_MIN
from gpu_workers.domains.spec import Embedded
from gpu_workers.models.encoder import Encoder
from training import public_text

DOCUMENTS = (100, 300, 1_000, 3_000)
EPSILONS = (3, 10)
FORMS = ("alone", "general", "labels")


def built(train: Embedded, form: str, encoder: str, fingerprint: str) -> DomainPack:
    return build_pack(
        [train],
        name="few",
        source="public",
        licence="public",
        encoder=encoder,
        encoder_fingerprint=fingerprint,
        seed=SEED,
        progress=lambda stage, share: None,  # noqa: ARG005
        aspect_weights={0: (1.0,)} if form == "labels" else {},
        known=None if form == "alone" else known_space(fingerprint),
    )


def lines(
    train: Embedded,
    test: Embedded,
    *,
    counts: Sequence[int],
    forms: Sequence[str],
    encoder: str,
    fingerprint: str,
) -> Iterator[str]:
    """One line for each number of documents and form. A number above that of the corpus stands for the whole corpus."""
    model = classifier(train.means(), train.labels)
    for count in sorted({min(count, len(train.lengths)) for count in counts}):
        for form in forms:
            start = time.process_time()
            pack = built(select(train, np.arange(count)), form, encoder, fingerprint)
            seconds = time.process_time() - start
            release = shipped("sentence_codes", form, pack).release
            scores = [macro_f1(model, release(test.documents(), epsilon), test.labels) for epsilon in EPSILONS]
            yield f"{count} {form} {' '.join(f'{score:.3f}' for score in scores)} {seconds:.0f} s"


def _number_of_documents(text: str) -> int:
    if int(text) < DOCUMENTS_MIN:
        raise argparse.ArgumentTypeError(f"a domain job takes {DOCUMENTS_MIN} documents or more")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Packs of few documents.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--corpora", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--documents", nargs="+", type=_number_of_documents, default=list(DOCUMENTS))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    arguments = parser.parse_args()
    encoder = Encoder()
    for title in arguments.corpora:
        source = SOURCES[title]
        train, test = (
            public_text.embed(
                source.read(arguments.data, split, count), encoder, arguments.cache, f"{source.name}-{split}"
            )
            for split, count in (("train", source.train), ("test", source.test))
        )
        found = lines(
            train,
            test,
            counts=arguments.documents,
            forms=arguments.forms,
            encoder=encoder.name,
            fingerprint=encoder.packs_of,
        )
        for line in found:
            print(title, line, flush=True)


if __name__ == "__main__":
    main()

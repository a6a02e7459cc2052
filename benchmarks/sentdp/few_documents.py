"""Packs that a domain job would build from few documents: utility of `sentence_codes`, with and without labels.

    python -m benchmarks.sentdp.few_documents --data DATA --cache CACHE

Each line has macro-F1 on the corpus's test split, of the classifiers of the comparison (`methods`), and the processor
time of the pack. `alone` is a pack without the space of the `general` pack, as for an encoder of the caller's own.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.sentdp.corpus import SOURCES
from benchmarks.sentdp.methods import classifier, macro_f1
from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import sentence_mechanism
from gpu_workers.domains import public_text
from gpu_workers.domains.build_pack import SEED, build_pack, known_space, select
from gpu_workers.domains.public_text import Embedded
from gpu_workers.models.encoder import Encoder

DOCUMENTS = (100, 300, 1_000, 3_000)
EPSILONS = (3, 10)
FORMS = ("alone", "general", "labels")


def built(train: Embedded, form: str, encoder: Encoder) -> DomainPack:
    return build_pack(
        [train],
        name="few",
        source="public",
        licence="public",
        encoder=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
        seed=SEED,
        progress=lambda stage, share: None,  # noqa: ARG005
        aspect_weights={0: (1.0,)} if form == "labels" else {},
        known=None if form == "alone" else known_space(encoder.fingerprint),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Packs of few documents.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--corpora", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--documents", nargs="+", type=int, default=list(DOCUMENTS))
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
        model = classifier(train.means(), train.labels)
        for count in arguments.documents:
            for form in arguments.forms:
                start = time.process_time()
                pack = built(select(train, np.arange(count)), form, encoder)
                seconds = time.process_time() - start
                mechanism = sentence_mechanism("sentence_codes", pack)
                scores = [
                    macro_f1(
                        model, mechanism.release(test.documents(), [epsilon * NANO] * len(test.labels)), test.labels
                    )
                    for epsilon in EPSILONS
                ]
                print(title, count, form, *(f"{score:.3f}" for score in scores), f"{seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()

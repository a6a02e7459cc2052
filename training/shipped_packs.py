"""The shipped domain packs: their public corpora, and the command that builds them.

    python -m training.shipped_packs --name general --data DATA --cache CACHE --out general.safetensors

The build is resumable: finished embedding shards stay in CACHE. Packs other than `general` use its space, so `general`
is built first.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict

from core.mechanisms.sentences.domain_pack import CodeNoise, DomainPack
from gpu_workers.domains import codes
from gpu_workers.domains.build_pack import SEED, build_pack, known_space
from gpu_workers.domains.codes import CodesRow
from gpu_workers.models.encoder import Encoder
from training import public_text
from training.public_text import Document, show

STEPS = 4_000  # of each training of the codes
GENERAL_ROWS = {  # of a pack of many kinds of text
    0.5: CodesRow(8, CodeNoise.COUNTS),
    1.0: CodesRow(12, CodeNoise.COUNTS),
    2.0: CodesRow(16, CodeNoise.COUNTS, short=16),
    3.0: CodesRow(24, CodeNoise.COUNTS, short=16),
    4.5: CodesRow(32, CodeNoise.COUNTS, short=32),
    6.0: CodesRow(64, CodeNoise.RESPONSES),
    8.0: CodesRow(256, CodeNoise.RESPONSES),
    10.0: CodesRow(1_024, CodeNoise.RESPONSES),
    15.0: CodesRow(1_024, CodeNoise.RESPONSES),
}


@dataclass(frozen=True)
class PublicCorpus:
    """One public corpus: its reader, and the weights of the aspects of its labels (`label_tasks`)."""

    read: Callable[[Path], list[Document]]
    source: str
    licence: str
    aspects: tuple[float, ...] = ()


CORPORA = {
    "20news-train": PublicCorpus(
        partial(public_text.newsgroups, split="train", limit=8_000, least=1, groups=True),
        "20 Newsgroups bydate train (Lang 1995)",
        "20 Newsgroups: none stated",
        (1.0,),
    ),
    "imdb-train": PublicCorpus(
        partial(public_text.imdb, split="train", limit=8_000, least=1),
        "IMDB train (Maas et al. 2011)",
        "IMDB: research, cite the paper",
        (0.5,),
    ),
    "reviews": PublicCorpus(
        partial(public_text.reviews, limit=12_000, least=2),
        "Amazon reviews of nine kinds of product (Blitzer et al. 2007; Liu et al. 2017)",
        "Amazon reviews: research, cite the papers",
        (2.0, 1.0),
    ),
    "bbc": PublicCorpus(
        partial(public_text.bbc, limit=2_225, least=2),
        "BBC news (Greene and Cunningham 2006)",
        "BBC news: research, non-commercial",
        (1.0,),
    ),
    "wikitext": PublicCorpus(
        partial(public_text.wikitext, limit=1_500),
        "WikiText-2 valid and test (Merity et al. 2016)",
        "WikiText-2: CC BY-SA",
    ),
    "qnli": PublicCorpus(
        partial(public_text.pairs, name="qnli", limit=8_000),
        "QNLI train (Wang et al. 2018)",
        "QNLI: CC BY-SA, as SQuAD",
    ),
    "qqp": PublicCorpus(
        partial(public_text.pairs, name="qqp", limit=8_000),
        "Quora question pairs (Wang et al. 2018)",
        "Quora question pairs: non-commercial",
    ),
    "sst2": PublicCorpus(
        partial(public_text.labelled_sentences, path="glue/sst2_train.jsonl.gz", limit=16_000),
        "SST-2 train (Socher et al. 2013)",
        "SST-2: research, cite the paper",
        (1.0,),
    ),
    "trec": PublicCorpus(
        partial(public_text.labelled_sentences, path="senteval/trec6_train.jsonl.gz", limit=6_000),
        "TREC questions train (Li and Roth 2002)",
        "TREC: research, cite the paper",
        (0.5,),
    ),
}


GENERAL = "general"
PACKS = {  # the shipped packs
    GENERAL: tuple(CORPORA),
    "forums": ("20news-train", "qqp", "trec"),
    "reviews": ("reviews", "imdb-train", "sst2"),
}


class Declared(TypedDict):
    """What a file says of its sources and its encoder."""

    source: str
    licence: str
    encoder: str
    encoder_fingerprint: str


def declared(corpora: Sequence[str], encoder: Encoder) -> Declared:
    """Return the declaration of a file that is made from these corpora."""
    chosen = [CORPORA[corpus] for corpus in corpora]
    return {
        "source": "; ".join(corpus.source for corpus in chosen),
        "licence": "; ".join(corpus.licence for corpus in chosen) + ". The file holds vectors and weights, no text.",
        "encoder": encoder.name,
        "encoder_fingerprint": encoder.packs_of,
    }


def build(
    data: Path, cache: Path, seed: int, *, name: str, corpora: Sequence[str], labelled: bool, steps: int
) -> DomainPack:
    """Build the pack of public corpora under `data`. Packs other than `general` use its space, as a domain job does."""
    encoder = Encoder()
    is_general = name == GENERAL
    chosen = [CORPORA[corpus] for corpus in corpora]
    return build_pack(
        [
            public_text.embed(corpus.read(data), encoder, cache, name)
            for name, corpus in zip(corpora, chosen, strict=True)
        ],
        name=name,
        **declared(corpora, encoder),
        seed=seed,
        progress=lambda stage, share: show(f"{stage} {share:.0%}"),
        aspect_weights={i: corpus.aspects for i, corpus in enumerate(chosen) if corpus.aspects} if labelled else {},
        rows=GENERAL_ROWS if is_general else codes.DOMAIN_ROWS,
        steps=steps,
        known=None if is_general else known_space(encoder.packs_of),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a shipped domain pack.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public corpora")
    parser.add_argument("--cache", type=Path, required=True, help="folder for embeddings, outside the repository")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", choices=PACKS, default=GENERAL)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--steps", type=int, default=STEPS, help="of each training of the codes")
    parser.add_argument("--labels", action=argparse.BooleanOptionalAction, default=True, help="use public labels")
    arguments = parser.parse_args()
    pack = build(
        arguments.data,
        arguments.cache,
        arguments.seed,
        name=arguments.name,
        corpora=PACKS[arguments.name],
        labelled=arguments.labels,
        steps=arguments.steps,
    )
    pack.save(arguments.out)
    DomainPack.load(arguments.out)


if __name__ == "__main__":
    main()

"""Build the vector pack: principal axes and codebooks of the encoder's space, from public sentences.

    python -m gpu_workers.training.vector_pack --data DATA --cache CACHE --out VECTOR_PACK

VECTOR_PACK being gpu_workers/packs/vectors/general.safetensors. No label is read. Of each corpus at most `--sentences`
are used, in an order given by the text's checksum. Resumable: finished embedding shards stay in CACHE.
"""

from __future__ import annotations

import argparse
import gzip
import json
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.code_space import Projection
from core.mechanisms.space import CODE_MAX
from core.mechanisms.vectors.codebook_size import TRAINED_SIZES
from core.mechanisms.vectors.spec import PACK_AXES
from core.mechanisms.vectors.vector_pack import VectorPack
from gpu_workers.encoder import Encoder
from gpu_workers.training import codes, public_text
from gpu_workers.training.public_text import Document

RANK = 32  # axes of the codebooks; 16 and 64 did no better
SEED = 20221
_LENGTHS = (12, 300)  # characters of a sentence of the corpora of documents
_DOCUMENTS = 4_000
SOURCE = (
    "20 Newsgroups bydate train (Lang 1995); IMDB train (Maas et al. 2011); WikiText-2 valid and test (Merity et al. "
    "2016); Yelp reviews' sentences (Shen et al. 2017); QQP, QNLI and MNLI train (GLUE, Wang et al. 2018)"
)
LICENCE = (
    "20 Newsgroups: none stated; IMDB: research, cite the paper; WikiText-2: CC BY-SA; Yelp sentences: Apache-2 "
    "(repository); GLUE: as the originals. The pack holds vectors, no text."
)


def corpora(data: Path, limit: int) -> dict[str, list[str]]:
    """Public sentences, a corpus at a time."""
    documents = {
        "news": public_text.newsgroups(data, "train", _DOCUMENTS),
        "imdb": public_text.imdb(data, "train", _DOCUMENTS),
        "wiki": public_text.wikitext(data, _DOCUMENTS),
    }
    texts = {
        name: [s for document in found for s in document.sentences if _LENGTHS[0] < len(s) < _LENGTHS[1]]
        for name, found in documents.items()
    }
    texts["yelp"] = _fields(data / "lm" / "yelp_sentences.jsonl.gz", "text")
    for name in ("qqp", "qnli", "mnli"):
        for field in ("text_a",) if name == "qqp" else ("text_a", "text_b"):
            texts[f"{name}-{field}"] = _fields(data / "glue" / f"{name}_train.jsonl.gz", field)
    return {
        name: sorted(set(rows), key=lambda row: (zlib.crc32(row.encode()), row))[:limit] for name, rows in texts.items()
    }


def build(vectors: npt.NDArray[np.float32], *, encoder: Encoder, seed: int) -> VectorPack:
    """The pack of public unit vectors `[n, d]`."""
    centre = vectors.mean(axis=0, dtype=np.float64)
    axes = np.linalg.eigh(np.cov(vectors.T.astype(np.float64)))[1][:, ::-1][:, :PACK_AXES]
    kept = axes[:, :RANK]
    # one grid for all axes, fine enough for the widest: four standard deviations reach its end
    step = CODE_MAX / (4.0 * float(((vectors - centre) @ kept).std(axis=0).max()))
    space = codes.integer_space(kept, centre, step)
    projection = Projection(space, torch.device("cpu"))
    places = projection.coordinates(torch.from_numpy(vectors)).numpy()
    return VectorPack(
        texts={
            "name": "general",
            "encoder": encoder.name,
            "encoder_fingerprint": encoder.fingerprint,
            "source": SOURCE,
            "licence": LICENCE,
        },
        space=space,
        codebooks={size: codes.codebook(places, size, seed) for size in TRAINED_SIZES},
        axes=np.ascontiguousarray(axes.T, dtype=np.float32),
        centre=centre.astype(np.float32),
        step=step,
    )


def _fields(path: Path, field: str) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [str(json.loads(line)[field]) for line in stream]


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the vector pack.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public corpora")
    parser.add_argument("--cache", type=Path, required=True, help="folder for embeddings, outside the repository")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=8_000, help="at most so many of each corpus")
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args()
    encoder = Encoder()
    parts = [
        public_text.embed([Document([text]) for text in texts], encoder, chosen.cache, f"vectors-{name}").vectors
        for name, texts in corpora(chosen.data, chosen.sentences).items()
    ]
    build(np.concatenate(parts), encoder=encoder, seed=chosen.seed).save(chosen.out)
    VectorPack.load(chosen.out, encoder_fingerprint=encoder.fingerprint)


if __name__ == "__main__":
    main()

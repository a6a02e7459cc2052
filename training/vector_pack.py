"""Build the vector pack: principal axes and codebooks of the encoder's space, from public sentences and their labels.

    python -m training.vector_pack --data DATA --cache CACHE --out VECTOR_PACK

VECTOR_PACK is gpu_workers/packs/vectors/general.safetensors. The codebooks' axes use public labels (`label_axes`): the
sentiment of Yelp's sentences and of the IMDB reviews that contain the sentences, the topics of 20 Newsgroups, and
questions against statements in QQP and QNLI. At most `--sentences` sentences of each corpus are used, ordered by the
checksum of the text. The build is resumable: finished embedding shards stay in CACHE.
"""

import argparse
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from core.mechanisms.integer_vectors import Projection
from core.mechanisms.sentences.domain_pack import CodeArray
from core.mechanisms.space import CODE_MAX
from core.mechanisms.vectors.projection import VectorPack
from core.mechanisms.vectors.spec import PACK_AXES, TRAINED_SIZES
from gpu_workers.domains import codes
from gpu_workers.models.encoder import Encoder
from training import public_text
from training.label_axes import Labelled, Vectors, code_axes, principal_axes
from training.public_text import Document

RANK = 32  # axes of the codebooks, including those of labels
SENTIMENT, TOPIC, QUESTION = 4.0, 4.0, 2.0  # variances of the widest principal axis
SEED = 20221
_QUESTIONS, _STATEMENTS = ("qqp-text_a", "qnli-text_a"), ("qnli-text_b", "mnli-text_a", "mnli-text_b")
_CROSSED_MAX = 32  # a codebook of at most this size has both polarities of every other code
_STARTS = 6  # of k-means for the small codebooks, where the results of different starts differ most
_LENGTHS = (12, 300)  # characters of a sentence, for corpora of documents
_DOCUMENTS = 4_000
SOURCE = (
    "20 Newsgroups bydate train (Lang 1995); IMDB train (Maas et al. 2011); WikiText-2 valid and test (Merity et al. "
    "2016); Yelp reviews' sentences (Shen et al. 2017); QQP, QNLI and MNLI train (GLUE, Wang et al. 2018)"
)
LICENCE = (
    "20 Newsgroups: none stated; IMDB: research, cite the paper; WikiText-2: CC BY-SA; Yelp sentences: Apache-2 "
    "(repository); GLUE: as the originals. The pack holds vectors, no text."
)


def corpora(data: Path, limit: int) -> dict[str, dict[str, str]]:
    """Public sentences and their labels ("" for none), by corpus."""
    documents = {
        "news": public_text.newsgroups(data, "train", _DOCUMENTS),
        "imdb": public_text.imdb(data, "train", _DOCUMENTS),
        "wiki": public_text.wikitext(data, _DOCUMENTS),
    }
    texts = {
        name: {
            s: document.label for document in found for s in document.sentences if _LENGTHS[0] < len(s) < _LENGTHS[1]
        }
        for name, found in documents.items()
    }
    texts["yelp"] = _fields(data / "lm" / "yelp_sentences.jsonl.gz", "text", "label")
    for name in ("qqp", "qnli", "mnli"):
        for field in ("text_a",) if name == "qqp" else ("text_a", "text_b"):
            texts[f"{name}-{field}"] = _fields(data / "glue" / f"{name}_train.jsonl.gz", field)
    return {
        name: {text: rows[text] for text in sorted(rows, key=lambda row: (zlib.crc32(row.encode()), row))[:limit]}
        for name, rows in texts.items()
    }


def label_sets(vectors: Mapping[str, Vectors], texts: Mapping[str, Mapping[str, str]]) -> list[Labelled]:
    """The labels for the codebooks' axes. `vectors` of each corpus are in the order of its `texts`."""
    labelled_rows = [(vectors[name], "question") for name in _QUESTIONS] + [
        (vectors[name], "statement") for name in _STATEMENTS
    ]
    question = (
        np.concatenate([rows for rows, _ in labelled_rows]),
        [label for rows, label in labelled_rows for _ in rows],
    )
    return [
        Labelled([(vectors[name], list(texts[name].values())) for name in ("yelp", "imdb")], SENTIMENT),
        Labelled([question], QUESTION),
        Labelled([(vectors["news"], list(texts["news"].values()))], TOPIC),
    ]


def build(vectors: Vectors, sets: Sequence[Labelled], *, encoder: Encoder, seed: int) -> VectorPack:
    """Build the pack of public unit vectors `[n, d]`. The axes of its codebooks use the labels of `sets`."""
    centre = vectors.mean(axis=0, dtype=np.float64)
    shape = code_axes(vectors, sets, RANK)
    scaled = shape.axes * shape.scales
    # One grid serves all axes. It is fine enough for the widest: four standard deviations reach the end of the grid.
    step = CODE_MAX / (4.0 * float(((vectors - centre) @ scaled).std(axis=0).max()))
    space = codes.integer_space(scaled, centre, step)
    projection = Projection(space, torch.device("cpu"))
    places = projection.coordinates(torch.from_numpy(vectors)).numpy()
    return VectorPack(
        texts={
            "name": "general",
            "encoder": encoder.name,
            "encoder_fingerprint": encoder.packs_of,
            "source": SOURCE,
            "licence": LICENCE,
        },
        space=space,
        codebooks={size: _codebook(places, size, seed) for size in TRAINED_SIZES},
        axes=np.ascontiguousarray(principal_axes(vectors)[:, :PACK_AXES].T, dtype=np.float32),
        centre=centre.astype(np.float32),
        code_axes=np.ascontiguousarray(shape.axes.T, dtype=np.float32),
        step=(step * shape.scales).astype(np.float32),
    )


def _codebook(places: CodeArray, size: int, seed: int) -> CodeArray:
    """Run k-means. A small codebook combines two polarities (the first axis) with the centroids of the other axes.

    Plain k-means uses few codes for topics, and texts of one topic then have one polarity.
    """
    if size > _CROSSED_MAX:
        return codes.codebook(places, size, seed)
    polarity = codes.codebook(places[:, :1], 2, seed, starts=_STARTS)
    rest = codes.codebook(places[:, 1:], size // 2, seed, starts=_STARTS)
    return np.concatenate([np.repeat(polarity, len(rest), axis=0), np.tile(rest, (2, 1))], axis=1)


def _fields(path: Path, text: str, label: str | None = None) -> dict[str, str]:
    return {str(row[text]): str(row[label]) if label else "" for row in public_text.json_lines(path)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the vector pack.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public corpora")
    parser.add_argument("--cache", type=Path, required=True, help="folder for embeddings, outside the repository")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=8_000, help="the most sentences of each corpus")
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args()
    encoder = Encoder()
    texts = corpora(chosen.data, chosen.sentences)
    vectors = {
        name: public_text.embed([Document([text]) for text in rows], encoder, chosen.cache, f"vectors-{name}").vectors
        for name, rows in texts.items()
    }
    everything = np.concatenate(list(vectors.values()))
    build(everything, label_sets(vectors, texts), encoder=encoder, seed=chosen.seed).save(chosen.out)
    VectorPack.load(chosen.out, encoder_fingerprint=encoder.packs_of)


if __name__ == "__main__":
    main()

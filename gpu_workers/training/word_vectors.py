"""Make the vocabulary of word-level metric DP.

    python -m gpu_workers.training.word_vectors [--out core/mechanisms/data/english_words.safetensors]

The words: the most frequent ones of `wordfreq`'s English list that are plain letters, perhaps with an apostrophe; of
single letters, `a` and `i` alone. A word's vector: what the bundled encoder says of it on its own, less the mean of
all, in the first principal components, each scaled to the same spread, at length 1. Public data alone, and no text.

Why so: noise grows with the number of dimensions, hence few; and at the same worst case 2 eps words on the sphere are
furthest from each other. docs/reference/benchmarks.md has the comparison.
"""

from __future__ import annotations

import argparse
import re
from importlib import metadata
from pathlib import Path

import numpy as np

from core.mechanisms.word_vectors import SHIPPED, Rows, save
from core.text.vocabulary import ranked
from gpu_workers.encoder import Encoder

WORDS = 30_000
DIMENSION = 24
_PLAIN = re.compile(r"[ai]|[a-z]{2,}|[a-z]+'[a-z]+")


def vocabulary(size: int) -> list[str]:
    """The words, most frequent first."""
    words, _ = ranked()
    return [word for word in words if _PLAIN.fullmatch(word)][:size]


def unit_components(vectors: Rows, dimension: int) -> Rows:
    """The whitened first principal components of each row, at length 1: float32 `[n, dimension]`."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = slice(-1, -dimension - 1, -1)
    parts = centred @ axes[:, kept] / np.sqrt(values[kept])
    unit: Rows = (parts / np.linalg.norm(parts, axis=1, keepdims=True)).astype(np.float32)
    return unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--words", type=int, default=WORDS)
    parser.add_argument("--dimension", type=int, default=DIMENSION)
    options = parser.parse_args()
    encoder = Encoder()
    words = vocabulary(options.words)
    vectors = unit_components(encoder.encode(words), options.dimension)
    facts = {
        "words": f"wordfreq {metadata.version('wordfreq')}, English, most frequent first",
        "encoder": encoder.name,
        "encoder_fingerprint": encoder.fingerprint,
    }
    save(options.out, words, vectors, metadata=facts)
    print(f"{len(words)} words of {options.dimension} dimensions, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()

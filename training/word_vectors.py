"""Build the vocabulary of word-level metric DP.

    python -m training.word_vectors [--out core/mechanisms/words/data/english_words.safetensors]

Words: the most frequent ones of `wordfreq`'s English list that consist of plain letters, with an optional apostrophe.
The only single letters are `a` and `i`. Vectors: the bundled encoder embeds each word separately. The mean of all
vectors is subtracted, and the first principal components are scaled to equal variance, normalised to length 1 and
rounded to integers. All of it is public data, and none of it is text.

At the same epsilon, words on the sphere have the largest distances. Noise grows with the number of dimensions, so only
the first components are used, with equal scales. docs/reference/benchmarks/words.md has the comparison.
"""

import argparse
import re
from importlib import metadata
from pathlib import Path

import numpy as np
import numpy.typing as npt

from core.mechanisms.words.pricing import WORDS_MAX
from core.mechanisms.words.replacement import SHIPPED, Rows, WordVectors, save, unit_codes
from core.text.mask_words import ranked
from gpu_workers.models.encoder import Encoder

DIMENSION = 64
_PLAIN = re.compile(r"[ai]|[a-z]{2,}|[a-z]+'[a-z]+")


def vocabulary(size: int) -> list[str]:
    """Return the words, the most frequent first."""

    words, _ = ranked()
    return [word for word in words if _PLAIN.fullmatch(word)][:size]


def components(vectors: Rows, dimension: int) -> npt.NDArray[np.float64]:
    """The whitened first principal components of each row: `[n, dimension]`."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = slice(-1, -dimension - 1, -1)
    whitened: npt.NDArray[np.float64] = centred @ axes[:, kept] / np.sqrt(values[kept])
    return whitened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--words", type=int, default=WORDS_MAX)
    parser.add_argument("--dimension", type=int, default=DIMENSION)
    options = parser.parse_args()
    encoder = Encoder()
    words = vocabulary(options.words)
    codes = unit_codes(components(encoder.encode(words), options.dimension))
    facts = {
        "words": f"wordfreq {metadata.version('wordfreq')}, English, most frequent first",
        "encoder": encoder.name,
        "encoder_fingerprint": encoder.packs_of,
    }
    save(options.out, WordVectors(words, codes), metadata=facts)
    print(f"{len(words)} words of {options.dimension} dimensions, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()

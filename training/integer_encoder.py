"""Choose how the integer encoder rounds the inputs and weights of its layers, on public texts.

    python -m training.integer_encoder --data DATA [--out gpu_workers/adapters/integer_encoder.safetensors]

The texts are the sentences of `training.vector_pack`, and short ones. It ends with the cosines
to float32 on sentences that it has not used (`training.integer_steps`).
"""

import argparse
import zlib
from itertools import chain, cycle
from pathlib import Path

import numpy as np
import torch

from core.text.mask_words import ranked
from gpu_workers.models.encoder import Encoder, bundled_fingerprint
from gpu_workers.models.encoder_model import bundled_weights
from gpu_workers.models.integer.encoder import IntegerEncoder
from gpu_workers.models.integer.layers import FORMAT, STEPS
from gpu_workers.models.packed_bert import PackedBert
from gpu_workers.models.tensor_file import write_tensors
from training.integer_steps import Build
from training.vector_pack import LICENCE, SOURCE, corpora

_ENDS = ("", ".", "!", "!!!", "?", "...")
_REPEATED = (2, 5, 20, 80, 300)
_ROWS_PER_SENTENCE = 4  # of the inputs of each layer
_MARKS = "-=*_.|#>~+!?"


def short_texts(count: int) -> list[str]:
    """Frequent words, alone and with what ends a sentence, some of them repeated, and lines of marks. Nothing averages
    the errors of such texts, and their hidden states are larger than those of others."""
    words, _ = ranked()
    alone = [word + end for word, end in zip(words[:count], cycle(_ENDS), strict=False)]
    repeated = [f"{word} " * times for word, times in zip(words[: count // 10], cycle(_REPEATED), strict=False)]
    lines = [f"{start}{mark * times} {mark}" for start in ("", "|   ") for mark in _MARKS for times in _REPEATED]
    return alone + repeated + lines


def sentences(data: Path, count: int) -> tuple[list[str], list[str]]:
    """Two lists of public sentences, of as many from each corpus, ordered by the checksum of the text."""
    found = corpora(data, 2 * count)
    ordered = [sorted(texts, key=lambda text: zlib.crc32(text.encode())) for texts in found.values()]
    share = count // len(ordered)
    return (
        list(chain.from_iterable(texts[:share] for texts in ordered)),
        list(chain.from_iterable(texts[share : 2 * share] for texts in ordered)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=STEPS)
    parser.add_argument("--sentences", type=int, default=2_000)
    parser.add_argument("--short", type=int, default=1_500)
    options = parser.parse_args()
    torch.set_num_threads(1)  # the same sums on every machine of a kind
    exact = Encoder(dtype=torch.float32)
    used, unused = sentences(options.data, options.sentences)
    texts = used + short_texts(options.short)
    weights, config = bundled_weights()
    build = Build(PackedBert(weights, config), exact.tokenise(texts), _ROWS_PER_SENTENCE)
    build.run()
    facts = {
        "encoder_fingerprint": bundled_fingerprint(),
        "layers": config["num_hidden_layers"],
        "texts": len(texts),
        "source": SOURCE,
        "licence": LICENCE.replace("The pack holds vectors", "The file holds ranges"),
    }
    write_tensors(options.out, FORMAT, facts, build.arrays)
    vectors = IntegerEncoder(options.out).encode(unused)
    cosines = (vectors.astype(np.float64) * exact.encode(unused)).sum(axis=1)
    print(f"{len(unused)} other sentences: cosine {cosines.mean():.5f} on average, {cosines.min():.4f} at worst")


if __name__ == "__main__":
    main()

"""The encoder in 8-bit integers: its speed beside others, how near its vectors are, and that each stands alone.

    python -m benchmarks.integer_encoder --data ../shared/data [--documents 60] [--sentences 10000] [--rows 100000]

Speed: the encoders and `SentenceTransformer.encode` in float32 take turns in one process with two threads, sentences
all at once and document by document; the best of three rounds counts. Cosines: to float32, over public sentences that
the build of the steps has not used. Independence: vectors of random batches, with 1 to 4 threads and each kind of
product, are compared bit by bit with the vector of each sentence alone.
"""

import zlib
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.kit import arguments, head, in_turn, reviews, row
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.integer.bert import exact_ways
from gpu_workers.models.integer.encoder import IntegerEncoder
from training import public_text

_THREADS, _ROUNDS = 2, 3
_BATCH_MAX = 40


def path_of(encoder: Encoder | IntegerEncoder) -> str:
    """The type and the kind of batches of an encoder, once it is checked."""
    passed, facts = encoder.self_check(), encoder.facts()
    path = f"{facts.dtype}, {'packed' if facts.packed else 'fixed batches'}"
    path += f" in tiles of {facts.tile_rows}" if facts.tile_rows else ""
    return path if passed else f"{path}, FAILS its check"


def speeds(documents: list[list[str]], encoders: list[Encoder | IntegerEncoder]) -> None:
    peer = SentenceTransformer(str(bundled_path()), device="cpu", model_kwargs={"dtype": "float32"})
    encodes = {path_of(encoder): encoder.encode for encoder in encoders}
    encodes["`encode`, float32"] = lambda sentences: peer.encode(sentences, show_progress_bar=False)
    texts = [sentence for units in documents for sentence in units]
    works = [lambda encode=encode: encode(texts) for encode in encodes.values()]
    works += [lambda encode=encode: [encode(units) for units in documents] for encode in encodes.values()]
    rates = [len(texts) / min(seconds) for seconds in in_turn(works, _ROUNDS)]
    head("", "all at once, sentences/s", "int8 to it", "document by document", "int8 to it")
    count = len(encodes)
    for i, name in enumerate(encodes):
        whole, single = rates[i], rates[count + i]
        row(name, f"{whole:.0f}", f"{rates[0] / whole:.2f}", f"{single:.0f}", f"{rates[count] / single:.2f}")


def public_sentences(data: Path, count: int) -> list[str]:
    """Sentences of the test parts of IMDB and 20 Newsgroups, ordered by the checksum of the text."""
    documents = [*public_text.imdb(data, "test", count), *public_text.newsgroups(data, "test", count)]
    found = {sentence for document in documents for sentence in document.sentences}
    return sorted(found, key=lambda text: (zlib.crc32(text.encode()), text))[:count]


def cosines(sentences: list[str], encoder: IntegerEncoder) -> None:
    exact = Encoder(dtype=torch.float32).encode(sentences).astype(np.float64)
    bfloat16 = Encoder(dtype=torch.bfloat16)
    for name, vectors in (("int8", encoder.encode(sentences)), ("bfloat16", bfloat16.encode(sentences))):
        found = (vectors * exact).sum(axis=1)
        rare = np.quantile(found, 0.001)
        shares = f"{found.mean():.5f} on average, {rare:.4f} for one in a thousand, {found.min():.4f} at worst"
        print(f"{name}: cosine to float32 {shares}", flush=True)


def differing_rows(sentences: list[str], rows: int) -> None:
    """Count the rows of random batches that differ in any bit from the vector of their sentence alone."""
    random = np.random.default_rng(0)
    encoders = {name: IntegerEncoder(way=name) for name in exact_ways()}
    first, *_ = encoders.values()
    tokens = first.tokenise(sentences)
    torch.set_num_threads(1)
    alone = np.concatenate([first.encode_tokens([ids]) for ids in tokens])
    differ = done = 0
    while done < rows:
        for encoder in encoders.values():
            torch.set_num_threads(int(random.integers(1, 5)))
            chosen = random.integers(0, len(tokens), random.integers(1, _BATCH_MAX))
            vectors = encoder.encode_tokens([tokens[i] for i in chosen])
            differ += int((vectors.view(np.uint32) != alone[chosen].view(np.uint32)).any(axis=1).sum())
            done += len(chosen)
    print(f"{done} rows of random batches, 1 to 4 threads, products by {' and '.join(encoders)}: {differ} differ")


def main() -> None:
    options = arguments(__doc__, needs_data=True, documents=60, sentences=10_000, rows=100_000)
    torch.set_num_threads(_THREADS)
    encoder = IntegerEncoder()
    if options.documents:
        speeds(
            reviews(options.data, options.documents),
            [encoder, *(Encoder(dtype=dtype) for dtype in (torch.bfloat16, torch.float32))],
        )
    if options.sentences:
        sentences = public_sentences(options.data, options.sentences)
        cosines(sentences, encoder)
        differing_rows(sentences[:2_000], options.rows)


if __name__ == "__main__":
    main()

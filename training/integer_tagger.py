"""Choose how the integer tagger rounds the inputs and weights of its layers, on texts that the tagger was trained with.

    python -m training.integer_tagger --data DATA [--out gpu_workers/adapters/integer_tagger.safetensors]

The texts are own ones in eight languages and public English ones with names (`training.tagger_batches`). The
build ends with how far probabilities are from those in float32, on texts that it has not used.
"""

import argparse
from pathlib import Path

import torch
from torch.nn.functional import embedding

from gpu_workers.models.embedded import packed_adapter, shipped
from gpu_workers.models.integer.bert import STEPS, IntegerTagger, adapter_digest
from gpu_workers.models.integer.layers import FORMAT
from gpu_workers.models.tagger import PackedTagger
from gpu_workers.models.tensor_file import write_tensors
from training.integer_steps import Build
from training.tagger_batches import CORPORA, Batches

SEED = 58
_BATCH_PIECES = 2_048
_ROWS_PER_TEXT = 20  # of the inputs of each layer
_ENGLISH = ("wikigold", "btc", "wnut17", "gum")
_SOURCE = (
    "WNUT17 train, BTC, wikigold, GUM train; own texts in eight languages with names by faker and GeoNames; Python's "
    "standard library"
)
_LICENCE = (
    "CC BY 4.0 (WNUT17, BTC, wikigold, GeoNames), CC (GUM), MIT (faker), PSF-2.0 (Python). The file holds ranges and "
    "roundings, and no text."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=STEPS)
    parser.add_argument("--batches", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)  # the same sums on every machine of a kind
    batches = Batches(options.data, SEED, corpora={name: CORPORA[name] for name in _ENGLISH})
    ids, kinds = [], []
    for step in range(options.batches):
        batch = batches.batch(step, _BATCH_PIECES)
        for row, length in enumerate(batch["mask"].sum(dim=1).tolist()):
            ids.append(batch["ids"][row, :length].tolist())
            kinds.append(batch["cases"][row, :length])
    own = packed_adapter("tagger", None, torch.float32)
    added = [embedding(each, own.tensors["case"]) for each in kinds]
    build = Build(own.bert, ids, _ROWS_PER_TEXT, added)
    build.run()
    facts = {
        "encoder_fingerprint": own.info.encoder_fingerprint,
        "adapter_digest": adapter_digest(shipped("tagger")),
        "layers": len(own.bert.layers),
        "texts": len(ids),
        "source": _SOURCE,
        "licence": _LICENCE,
    }
    write_tensors(options.out, FORMAT, facts, build.arrays)
    other = batches.batch(options.batches, _BATCH_PIECES)
    inputs, seen = (other["ids"], other["cases"], other["mask"]), other["mask"].bool()
    exact, rounded = (
        torch.softmax(net(*inputs)[seen], dim=-1)
        for net in (PackedTagger(None, torch.float32), IntegerTagger(options.out))
    )
    same = (exact.argmax(dim=1) == rounded.argmax(dim=1)).float().mean()
    distance = (exact - rounded).abs().max(dim=1).values
    print(f"{len(exact)} other pieces: {same:.4f} with the same label, probabilities off by {distance.mean():.4f}")


if __name__ == "__main__":
    main()

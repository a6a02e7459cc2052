"""What the playground shows of embeddings: sample texts, and the public sentences that are nearest to their vectors.

    python -m training.neighbours

Reads the texts and sentences of `service/dashboard/static/neighbours.json` and writes there, for each text, the nearest
sentences of its vector without noise and of `DRAWS` releases at each epsilon. The vector without noise is the mean of
the text's sentence vectors, which `sentence_codes` estimates. All texts were written for this file and are public, so
the draws are charged to nobody.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.amounts import cost_nano
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.release import FloatArray
from core.mechanisms.sentences.sentence_codes import SentenceCodes
from core.text.segment import sentences
from gpu_workers.models.integer.encoder import IntegerEncoder
from gpu_workers.packs import pack_paths

FILE = Path(__file__).parent.parent / "service/dashboard/static/neighbours.json"
EPSILONS = (0.5, 1.0, 2.0, 3.0, 6.0, 10.0, 25.0)
DRAWS = 8
SHOWN = 5


def with_neighbours(texts: dict[str, Any]) -> dict[str, Any]:
    """Return the content of the file for its `public` sentences and `samples`. A neighbour is the place of its sentence
    in `public` and its cosine to the vector in percent, both less the pack's centre."""
    encoder, mechanism = IntegerEncoder(), SentenceCodes(DomainPack.load(pack_paths()["general"]))
    centre = mechanism.pack.centre.astype(np.float32)
    public = _directions(encoder.encode(texts["public"]) - centre)

    def nearest(vectors: FloatArray) -> list[list[list[int]]]:
        cosines = _directions(vectors - centre) @ public.T
        return [[[int(i), round(100 * float(row[i]))] for i in np.argsort(-row)[:SHOWN]] for row in cosines]

    samples = []
    for sample in texts["samples"]:
        vectors = encoder.encode(sentences(sample["text"]))
        epsilon_nano = [cost_nano(epsilon) for epsilon in EPSILONS for _ in range(DRAWS)]
        drawn = nearest(mechanism.release([torch.from_numpy(vectors)] * len(epsilon_nano), epsilon_nano))
        samples.append(
            {
                "name": sample["name"],
                "text": sample["text"],
                "without": nearest(vectors.mean(axis=0, keepdims=True))[0],
                "drawn": [drawn[start : start + DRAWS] for start in range(0, len(drawn), DRAWS)],
            }
        )
    return {"epsilons": list(EPSILONS), "public": texts["public"], "samples": samples}


def _directions(vectors: FloatArray) -> FloatArray:
    directions: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return directions


if __name__ == "__main__":
    written = json.dumps(with_neighbours(json.loads(FILE.read_text())), indent=1, ensure_ascii=False)
    FILE.write_text(re.sub(r"\[[\d\s,.\[\]-]*\]", lambda found: "".join(found[0].split()), written) + "\n")

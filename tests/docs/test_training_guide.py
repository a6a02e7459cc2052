"""The guide on training: its code runs, and finds two separate classes."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import sentence_mechanism

ROOT = Path(__file__).parents[2]


def test_the_code_of_the_guide_trains_a_classifier() -> None:
    """The block of the page runs as it is, on releases of two kinds of documents."""
    page = (ROOT / "docs/guide/training.md").read_text()
    block = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block[0], names)
    pack = DomainPack.load(ROOT / "gpu_workers/packs/general.safetensors")
    source = np.random.default_rng(7)
    picked = source.integers(0, 2, 60)
    documents = [np.repeat(pack.candidates[[5 * i]], 8, axis=0) for i in picked]  # two candidates of the pack
    labels = np.array(["a", "b"])[picked]
    mechanism = sentence_mechanism("sentence_codes", pack)
    released = mechanism.release([torch.from_numpy(rows) for rows in documents], [10 * NANO] * 60)
    model = names["train"](released[:20], labels[:20], documents[20:40], labels[20:40], pack, 10)

    assert len(block) == 1
    assert np.mean(model.predict(released[40:]) == labels[40:]) > 0.9

"""The recipes of the training benchmark: each finds two separate classes, and cuts and copies are what they say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.sentdp.training import COPIES, LONGEST, Labels, Part, Trial, mixed, recipes
from core.amounts import NANO
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import sentence_mechanism
from training.public_text import Document

DIMENSION = 16
ROOT = Path(__file__).parents[2]


def part(count: int, seed: int) -> Part:
    """Documents of 1 to 24 sentences around one of two centres."""
    source = np.random.default_rng(seed)
    labels = np.array(["a", "b"] * (count // 2))
    documents = []
    for label in labels:
        rows = source.normal(0, 0.5, (source.integers(1, LONGEST + 1), DIMENSION))
        rows[:, 0] += 2 if label == "a" else -2
        documents.append(rows.astype(np.float32))
    return Part(documents, labels)


def released(documents: Part, copies: int, seed: int) -> np.ndarray:
    clean = np.repeat(documents.means(), copies, axis=0)
    return (clean + np.random.default_rng(seed).normal(0, 0.3, clean.shape)).astype(np.float32)


@pytest.fixture(scope="module")
def test_part() -> Part:
    return part(100, 0)


@pytest.fixture(scope="module")
def trial(test_part: Part) -> Trial:
    documents, public = part(80, 1), part(300, 2)
    return Trial(
        documents=documents,
        rows=released(documents, 1, 3),
        public=public,
        public_copies=released(public, COPIES, 5),
        test_rows=released(test_part, 1, 6),
        test_lengths=test_part.lengths(),
    )


@pytest.mark.parametrize(("about", "recipe"), recipes().values(), ids=recipes())
def test_every_recipe_separates_the_classes(
    about: str, recipe: Callable[[Trial], Labels], trial: Trial, test_part: Part
) -> None:
    assert about
    assert np.mean(recipe(trial) == test_part.labels) > 0.95


def test_a_smaller_trial_has_the_first_documents(trial: Trial) -> None:
    smaller = trial.first(10)

    assert len(smaller.documents.documents) == len(smaller.rows) == len(smaller.documents.labels) == 10
    assert np.array_equal(smaller.documents.means(), trial.documents.means()[:10])


def test_a_cut_keeps_the_first_sentences_and_its_place_alone_sets_it() -> None:
    documents = [Document([f"{i} {j}" for j in range(LONGEST)], str(i)) for i in range(4_000)]
    cut = mixed(documents)

    for each, full in zip(cut, documents, strict=True):
        assert each.sentences == full.sentences[: len(each.sentences)]
    assert mixed(documents[:50]) == cut[:50]
    lengths = [len(each.sentences) for each in cut]
    assert (min(lengths), max(lengths)) == (1, LONGEST)
    assert np.mean(np.array(lengths) < 5) == pytest.approx(0.5, abs=0.03)


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

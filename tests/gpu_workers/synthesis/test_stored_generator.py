"""Rows are drawn from an artifact without torch, by the laws that are in it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from synthesis_kit import table_of, toy_schema

from core.errors import InvalidInput
from core.synthesis.encoding import decode_rows
from core.synthesis.marginals_release import marginals_release
from core.synthesis.pricing import record_budget
from gpu_workers.models.tensor_file import read_tensors
from gpu_workers.synthesis.generator import Generator, GeneratorShape, save_generator
from gpu_workers.synthesis.stored_generator import load_source, save_counts

SHAPE = GeneratorShape(components=3, bins=4)


@pytest.fixture
def generator() -> Generator:
    torch.manual_seed(3)
    made = Generator(toy_schema(numeric=2), torch.tensor([3.0, 1.0]), SHAPE)
    made.logits.data += torch.randn_like(made.logits) * 2
    return made


@pytest.fixture
def path(tmp_path: Path, generator: Generator) -> Path:
    path = tmp_path / "generator.safetensors"
    save_generator(path, generator)
    return path


def test_rows_have_the_laws_that_were_learnt(path: Path, generator: Generator) -> None:
    """Shares of classes, of each column's cells in a class, and of pairs of cells; 6 standard deviations."""
    count = 60_000
    drawn = load_source(path).sample(count)
    assert (drawn.labels == 0).mean() == pytest.approx(0.75, abs=0.011)
    laws = [part.detach().numpy() for part in torch.split(generator(), [len(each) for each in generator.cells], dim=2)]
    for label in (0, 1):
        mine = drawn.codes[drawn.labels == label]
        cells = [np.searchsorted(each.first, mine[:, j], side="right") - 1 for j, each in enumerate(generator.cells)]
        for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2)):
            law = np.einsum("ca,cb->ab", laws[i][label], laws[j][label]) / SHAPE.components
            if i == j:
                law = np.diag(laws[i][label].mean(axis=0))
            found = np.zeros_like(law)
            np.add.at(found, (cells[i], cells[j]), 1 / len(mine))
            assert np.abs(found - law).max() < 6 * np.sqrt(0.25 / len(mine))


def test_two_samples_differ_and_are_of_the_schema(path: Path) -> None:
    source = load_source(path)
    assert {row["colour"] for row in decode_rows(source.sample(50))} <= {"red", "green", "blue"}
    assert not np.array_equal(source.sample(100).codes, source.sample(100).codes)
    with pytest.raises(InvalidInput):
        source.sample(0)


def test_counts_there_and_back(tmp_path: Path) -> None:
    table = table_of(toy_schema(), [(0, 0, 0), (4096, 1, 1), (2000, 2, 1)] * 30)
    release = marginals_release(table, bins=5, budget=record_budget(1, 1e-5), rows_are_public=True)
    save_counts(tmp_path / "counts.safetensors", release)
    again = load_source(tmp_path / "counts.safetensors")
    assert (again.schema, again.bins, again.rows) == (release.schema, 5, 90)
    for before, after in zip((*release.tables, release.classes), (*again.tables, again.classes), strict=True):
        assert np.array_equal(before, after)


@pytest.mark.parametrize("harm", ["cut", "missing", "shape", "nan", "format", "facts", "classes"])
def test_a_broken_file_is_refused(path: Path, harm: str) -> None:
    kind, facts, _ = read_tensors(path)
    tensors = dict(load_file(path))
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    else:
        if harm == "missing":
            del tensors["logits"]
        elif harm == "shape":
            tensors["logits"] = np.zeros(3, dtype=np.float32)
        elif harm == "nan":
            tensors["logits"][0, 0, 0] = np.nan
        elif harm == "classes":
            tensors["class_sizes"][:] = 0
        elif harm == "facts":
            facts = {"bins": 4}
        else:
            kind = "walrus"
        save_file(tensors, path, metadata={"format": kind, "info": json.dumps(facts)})
    with pytest.raises(ValueError, match=r"file|generator|format|classes|tensors"):
        load_source(path)

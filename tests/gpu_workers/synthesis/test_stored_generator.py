"""Rows of a generator's file without torch are those of the generator."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from synthesis_kit import table_of, toy_schema

from core.synthesis.artifact import load_source, save_counts
from core.synthesis.encoding import STEPS
from core.synthesis.marginals_release import marginals_release
from core.synthesis.pricing import record_budget
from core.synthesis.schema import NumericColumn
from core.synthesis.stored_generator import StoredGenerator, read_tensors
from gpu_workers.synthesis.generator import Generator, GeneratorShape, save_generator


@pytest.fixture
def generator() -> Generator:
    torch.manual_seed(3)
    made = Generator(toy_schema(numeric=3), torch.tensor([3.0, 1.0]), GeneratorShape(latent=4, hidden=16))
    for _ in range(20):  # moves what the normalisation has seen
        made(torch.randn(64, 4) * 2 + 1, torch.randint(0, 2, (64,)))
    return made.eval()


@pytest.fixture
def path(tmp_path: Path, generator: Generator) -> Path:
    path = tmp_path / "generator.safetensors"
    save_generator(path, generator)
    return path


def test_the_same_rows(path: Path, generator: Generator) -> None:
    stored = load_source(path)
    assert isinstance(stored, StoredGenerator)
    latent = np.random.default_rng(1).standard_normal((500, 4), dtype=np.float32)
    labels = np.arange(500) % 2
    with torch.no_grad():
        rows = generator(torch.from_numpy(latent), torch.from_numpy(labels)).numpy()
    codes = stored.codes(latent, labels)
    for j, column in enumerate(stored.schema.columns):
        if isinstance(column, NumericColumn):
            assert np.abs(codes[:, j] - rows[:, j] * STEPS).max() < 1
        else:
            assert np.array_equal(codes[:, j], rows[:, j:].argmax(axis=1))


def test_a_sample_has_the_classes_shares(path: Path) -> None:
    drawn = load_source(path).sample(9_000)
    assert len(drawn) == 9_000
    assert 0.7 < (drawn.labels == 0).mean() < 0.8
    assert not np.array_equal(drawn.codes, load_source(path).sample(9_000).codes)


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
            del tensors["body.0.bias"]
        elif harm == "shape":
            tensors["body.0.bias"] = np.zeros(3, dtype=np.float32)
        elif harm == "nan":
            tensors["body.0.bias"][0] = np.nan
        elif harm == "classes":
            tensors["class_sizes"][:] = 0
        elif harm == "facts":
            facts = {"latent": 4}
        else:
            kind = "walrus"
        save_file(tensors, path, metadata={"format": kind, "info": json.dumps(facts)})
    with pytest.raises(ValueError, match=r"file|generator|format|classes|tensors"):
        load_source(path)

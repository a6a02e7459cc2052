"""The closed form of a generator's characteristic function against rows drawn from it, and against one row."""

import numpy as np
import pytest
import torch

from core.synthesis.columns import STEPS
from core.synthesis.encoding import unit_vectors
from core.synthesis.frequencies import low_order, public_frequencies
from core.synthesis.schema import TableSchema, table_schema
from gpu_workers.synthesis.generator import Generator, GeneratorShape, expected_features

SCHEMA = table_schema(
    {
        "columns": [
            {"name": "height", "kind": "numeric", "minimum": 0, "maximum": 2},
            {"name": "age", "kind": "numeric", "minimum": 0, "maximum": 20, "integer": True},
            {"name": "colour", "kind": "categorical", "categories": ["red", "green", "blue", "grey", "white"]},
            {"name": "only", "kind": "categorical", "categories": ["one"]},
        ],
        "label": {"name": "label", "kind": "categorical", "categories": ["no", "yes"]},
    }
)
UNIT = 2 * np.pi / 2**18


def frequencies_of(kind: str) -> np.ndarray:
    if kind == "low order":
        return low_order(SCHEMA, frequencies=500).integers.T * UNIT
    return public_frequencies(width=SCHEMA.width, count=60, spread=2.0).T * UNIT


def generator_of(schema: TableSchema) -> Generator:
    generator = Generator(schema, torch.tensor([1.0, 3.0]), GeneratorShape(components=5, bins=8))
    with torch.no_grad():
        generator.logits.add_(torch.randn(generator.logits.shape, generator=torch.Generator().manual_seed(0)) * 2)
    return generator


def test_the_closed_form_is_what_many_rows_have() -> None:
    for kind in ["low order", "gaussian"]:
        generator, frequencies = generator_of(SCHEMA), frequencies_of(kind)
        expected = expected_features(SCHEMA, frequencies, generator.cells, torch.device("cpu"))(generator())
        drawn = generator.sample(80_000)
        angles = unit_vectors(SCHEMA, drawn.codes) / STEPS @ frequencies.T
        for label in (0, 1):
            mine = angles[drawn.labels == label]
            means = np.stack([np.cos(mine), np.sin(mine)], axis=2).mean(axis=0)
            assert np.abs(expected[label].detach().numpy() - means).max() < 7 / np.sqrt(
                len(mine)
            )  # by Hoeffding, for all of them: 1e-7
        assert np.mean(drawn.labels) == pytest.approx(0.75, abs=0.02)

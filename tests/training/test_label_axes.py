"""The axes of the trained codebooks: a narrow direction that public labels hang on becomes a wide one."""

import numpy as np

from training.label_axes import Labelled, code_axes

NARROW = 5


def test_what_labels_hang_on_comes_first_and_as_wide_as_requested() -> None:
    draw = np.random.default_rng(3)
    spread = np.array([4.0, 3.0, 2.0, 1.0, 1.0, 0.2, 0.5, 0.5])
    vectors = (draw.normal(size=(4_000, len(spread))) * spread).astype(np.float32)
    labels = ["good" if row[NARROW] > 0 else "bad" for row in vectors]
    moved = vectors[:2_000] + np.float32(9.0)  # another corpus: where it lies is no part of a label
    made = code_axes(vectors, [Labelled([(moved, labels[:2_000]), (vectors[2_000:], labels[2_000:])], 4.0)], rank=3)
    assert np.allclose(made.axes.T @ made.axes, np.eye(3), atol=1e-9)
    assert abs(made.axes[NARROW, 0]) > 0.99
    placed = vectors @ (made.axes * made.scales)
    assert np.allclose(placed.std(axis=0), [8.0, 4.0, 3.0], rtol=0.05)  # twice the widest, then the rest as they are

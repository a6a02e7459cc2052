"""The axes of the trained codebooks: first, scaled directions of public labels; then principal axes of the rest.

Few codes carry few bits, and k-means uses them for the axes with the largest variance. By variance alone, these are
topics and registers, while the properties that users ask about, above all polarity, have little variance. Each set of
labels therefore gets directions of its own, by least squares (ridge) from vectors to labels, scaled to the share of
variance that the set declares.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_RIDGE = 0.3  # in units of the vectors' mean variance; .03 and 3 separate held-out labels equally well

Vectors = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Labelled:
    """One set of labels.

    `blocks`: public vectors `[n, d]` and their labels, one block for each corpus; differences between blocks are not
    counted. `variance`: the total variance of the set's directions, in variances of the widest principal axis.
    """

    blocks: Sequence[tuple[Vectors, Sequence[str]]]
    variance: float


@dataclass(frozen=True)
class CodeAxes:
    """Orthonormal `axes` `[d, r]`, and their `scales` `[r]`: 1 for a principal axis."""

    axes: Doubles
    scales: Doubles


def principal_axes(vectors: npt.NDArray[np.floating]) -> Doubles:
    """Eigenvectors of the covariance of `vectors` `[n, d]`, by descending variance: `[d, d]`."""
    return np.asarray(np.linalg.eigh(np.cov(vectors.T.astype(np.float64)))[1][:, ::-1])


def code_axes(vectors: Vectors, sets: Sequence[Labelled], rank: int) -> CodeAxes:
    """The directions of each set, then principal axes of the remainder of `vectors`, `rank` in total."""
    found = [_directions(labelled) for labelled in sets]
    named = np.linalg.qr(np.concatenate(found, axis=1))[0]
    moved = vectors - vectors.mean(axis=0, dtype=np.float64)
    left = moved - (moved @ named) @ named.T
    axes = np.concatenate([named, principal_axes(left)[:, : rank - named.shape[1]]], axis=1)
    widest = float((moved @ principal_axes(moved)[:, 0]).std())
    wanted = np.concatenate(
        [np.full(own.shape[1], math.sqrt(s.variance / own.shape[1])) for own, s in zip(found, sets, strict=True)]
    )
    scales = np.ones(rank)
    scales[: len(wanted)] = widest * wanted / (moved @ named).std(axis=0)
    return CodeAxes(axes, scales)


def _directions(labelled: Labelled) -> Doubles:
    """Return orthonormal directions `[d, c - 1]` for c labels."""
    names = sorted({label for _, labels in labelled.blocks for label in labels})
    moved, targets = [], []
    for vectors, labels in labelled.blocks:
        named = np.array([[label == name for name in names] for label in labels], dtype=np.float64)
        moved.append(vectors - vectors.mean(axis=0, dtype=np.float64))
        targets.append(named - named.mean(axis=0))
    inputs = np.concatenate(moved)
    square = inputs.T @ inputs
    ridge = _RIDGE * np.trace(square) / len(square)
    weights = np.linalg.solve(square + ridge * np.eye(len(square)), inputs.T @ np.concatenate(targets))
    return np.asarray(np.linalg.svd(weights / np.linalg.norm(weights, axis=0))[0][:, : len(names) - 1])

"""A model of a table on a junction tree, fitted to noisy marginals: Private-PGM (McKenna, Sheldon and Miklau 2019).

Guarantee: none of its own. Everything in this module is a deterministic function of released numbers and the schema,
so it is post-processing.

The model is the distribution of maximal entropy whose marginals are as near to the measured ones as possible. It is a
product of one factor for each measured set of attributes (`Model.factors`, logarithms), and lives on a junction tree of
cliques that hold these sets. `fit` runs entropic mirror descent on the factors, with the step size by backtracking.
An attribute is a number below `len(sizes)`, a set of attributes an ascending tuple, and an array over a set has one
axis for each attribute in this order.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Attributes = tuple[int, ...]

_HALVINGS = 25
_FLOOR = -60.0  # logarithm of the least factor, relative to the greatest


def model_cells(sizes: Sequence[int], sets: Iterable[Attributes], further: Sequence[Attributes]) -> FloatArray:
    """Return for each of the `further` sets how many cells the cliques of a tree of `sets` and this one have: `[m]`.

    Attributes are eliminated in the order of the smallest clique, for all of `further` at once.
    """
    count = len(sizes)
    base = np.zeros((count, count), dtype=bool)
    _connect(base, sets)
    links = np.repeat(base[None], len(further), axis=0)
    for i, each in enumerate(further):
        _connect(links[i], [each])
    weights = np.log(np.array(sizes, dtype=np.float64))
    left = np.ones((len(further), count), dtype=bool)
    total = np.zeros(len(further))
    every = np.arange(len(further))
    for _ in range(count):
        size = links @ weights + weights
        size[~left] = np.inf
        least = size.argmin(axis=1)
        total += np.exp(size[every, least])
        near = links[every, least]
        links |= near[:, :, None] & near[:, None, :]
        links[:, np.arange(count), np.arange(count)] = False
        links[every, least] = False
        links[every, :, least] = False
        left[every, least] = False
    return total


def _connect(links: npt.NDArray[np.bool_], sets: Iterable[Attributes]) -> None:
    for each in sets:
        links[np.ix_(each, each)] = True
    np.fill_diagonal(links, False)


def cliques_of(sizes: Sequence[int], sets: Iterable[Attributes]) -> list[Attributes]:
    """Return the maximal cliques of a triangulated graph in which every set is a clique."""
    near: dict[int, set[int]] = {i: set() for i in range(len(sizes))}
    for each in sets:
        for i in each:
            near[i] |= set(each) - {i}
    found: list[set[int]] = []
    while near:
        least = min(near, key=lambda i: (math.prod(sizes[j] for j in near[i]) * sizes[i], i))
        around = near.pop(least)
        for i in around:
            near[i] |= around - {i}
            near[i].discard(least)
        clique = around | {least}
        if not any(clique <= other for other in found):
            found.append(clique)
    return [tuple(sorted(clique)) for clique in found]


@dataclass(frozen=True)
class Node:
    """A clique, its parent's index in the order of the tree (-1 for a root), and the attributes it shares with it."""

    clique: Attributes
    parent: int
    shared: Attributes


def tree_of(cliques: Sequence[Attributes]) -> list[Node]:
    """Return the cliques in an order in which parents come first, as a spanning tree of maximal separators."""
    left = sorted(cliques)
    nodes: list[Node] = []
    while left:
        best = max(
            (
                (len(set(clique) & set(node.clique)), -j, -i)
                for i, node in enumerate(nodes)
                for j, clique in enumerate(left)
            ),
            default=(0, 0, 1),
        )
        clique, parent = left.pop(-best[1]), -best[2]
        shared = tuple(sorted(set(clique) & set(nodes[parent].clique))) if nodes and best[0] else ()
        nodes.append(Node(clique, parent if shared else -1, shared))
    return nodes


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy counts over a set of attributes, and their standard deviations, which broadcast over the counts."""

    attributes: Attributes
    counts: FloatArray
    deviation: FloatArray


@dataclass(eq=False)
class Model:
    """The distribution of `total` rows over attributes of these `sizes`. Without factors it is uniform."""

    sizes: tuple[int, ...]
    total: float
    factors: dict[Attributes, FloatArray] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    conditionals: list[FloatArray] = field(default_factory=list)

    def fit(self, measurements: Sequence[Measurement], *, steps: int) -> None:
        """Move the factors towards the measured counts by at most `steps` steps, from where they are now."""
        sets = dict.fromkeys(each.attributes for each in measurements)
        alone = [(i,) for i in range(len(self.sizes))]
        for each in sets:
            self.factors.setdefault(each, np.zeros([self.sizes[i] for i in each]))
        self.nodes = tree_of(cliques_of(self.sizes, [*sets, *alone]))
        homes = {each: next(i for i, node in enumerate(self.nodes) if set(each) <= set(node.clique)) for each in sets}
        weight, target = _combined(measurements)
        factors = self.factors
        marginals = self._marginals(factors, homes)
        loss = self._loss(marginals, weight, target)
        rate = 1.0 / max(float(each.max()) for each in weight.values()) / self.total**2
        for _ in range(steps):
            slopes = {each: self.total * weight[each] * (self.total * marginals[each] - target[each]) for each in sets}
            for _ in range(_HALVINGS):
                moved = {each: _bounded(factors[each] - rate * slopes[each]) for each in sets}
                tried = self._marginals(moved, homes)
                new = self._loss(tried, weight, target)
                gain = sum(float((slopes[each] * (marginals[each] - tried[each])).sum()) for each in sets)
                if loss - new >= 0.5 * gain:
                    break
                rate /= 2
            else:
                break
            done = loss - new <= 1e-6 * loss
            factors, marginals, loss = moved, tried, new
            rate *= 2
            if done:
                break
        self.factors = dict(factors)
        self._marginals(self.factors, homes)

    def _loss(
        self,
        marginals: dict[Attributes, FloatArray],
        weight: dict[Attributes, FloatArray],
        target: dict[Attributes, FloatArray],
    ) -> float:
        return sum(
            float((weight[each] * (self.total * marginals[each] - target[each]) ** 2).sum()) / 2 for each in marginals
        )

    def _marginals(
        self, factors: dict[Attributes, FloatArray], homes: dict[Attributes, int]
    ) -> dict[Attributes, FloatArray]:
        """Return the probabilities of each set, by passing messages from the leaves to the roots and back."""
        beliefs = [np.zeros([self.sizes[i] for i in node.clique]) for node in self.nodes]
        for each, factor in factors.items():
            beliefs[homes[each]] += _aligned(factor, each, self.nodes[homes[each]].clique)
        conditionals: list[FloatArray] = [np.empty(0)] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            node, belief = self.nodes[i], beliefs[i]
            axes = _others(node.clique, node.shared)
            top = belief.max(axis=axes, keepdims=True)
            belief = np.exp(belief - top)
            sums = belief.sum(axis=axes, keepdims=True)
            conditionals[i] = belief / sums
            if node.parent >= 0:
                message = (np.log(sums) + top).reshape([self.sizes[j] for j in node.shared])
                beliefs[node.parent] += _aligned(message, node.shared, self.nodes[node.parent].clique)
        joint: list[FloatArray] = []
        for node, conditional in zip(self.nodes, conditionals, strict=True):
            if node.parent < 0:
                joint.append(conditional)
                continue
            above = _summed(joint[node.parent], self.nodes[node.parent].clique, node.shared)
            joint.append(conditional * _aligned(above, node.shared, node.clique))
        self.conditionals = conditionals
        return {each: _summed(joint[homes[each]], self.nodes[homes[each]].clique, each) for each in factors}

    def draw(self, count: int, generator: np.random.Generator) -> IntArray:
        """Draw `count` rows, int64 `[count, attributes]`."""
        return draw_rows(self.sizes, self.nodes, self.conditionals, count, generator)


def draw_rows(
    sizes: Sequence[int],
    nodes: Sequence[Node],
    conditionals: Sequence[FloatArray],
    count: int,
    generator: np.random.Generator,
) -> IntArray:
    """Draw rows clique by clique, given the shared attributes: int64 `[count, attributes]`.

    Among the rows with the same values of the shared attributes, each combination of the others is drawn as often as
    its probability says, up to one row: the uniform numbers are one in each of as many even intervals as there are
    rows.
    """
    rows = np.zeros((count, len(sizes)), dtype=np.int64)
    for node, conditional in zip(nodes, conditionals, strict=True):
        fresh = tuple(i for i in node.clique if i not in node.shared)
        order = [node.clique.index(i) for i in (*node.shared, *fresh)]
        groups = math.prod(sizes[i] for i in node.shared)
        table = conditional.transpose(order).reshape(groups, -1)
        reached = np.cumsum(table, axis=1)
        reached /= reached[:, -1:]
        group = (
            np.ravel_multi_index([rows[:, i] for i in node.shared], [sizes[i] for i in node.shared])
            if node.shared
            else np.zeros(count, dtype=np.int64)
        )
        level = _even(group, groups, generator)
        flat = np.searchsorted((reached + np.arange(groups)[:, None]).ravel(), group + level, side="right")
        cell = np.minimum(flat - group * table.shape[1], table.shape[1] - 1)
        for i, values in zip(fresh, np.unravel_index(cell, [sizes[i] for i in fresh]), strict=True):
            rows[:, i] = values
    return rows


def _even(group: IntArray, groups: int, generator: np.random.Generator) -> FloatArray:
    """Return a uniform number below 1 for each row: in each group one in each of as many intervals as it has rows."""
    shuffled = generator.permutation(len(group))
    order = shuffled[np.argsort(group[shuffled], kind="stable")]
    counts = np.bincount(group, minlength=groups)
    starts = np.cumsum(counts) - counts
    level = np.empty(len(group))
    ranks = np.arange(len(group)) - starts[group[order]]
    level[order] = (ranks + generator.random(len(group))) / counts[group[order]]
    return np.minimum(level, 1 - 2**-30)


def _combined(measurements: Sequence[Measurement]) -> tuple[dict[Attributes, FloatArray], dict[Attributes, FloatArray]]:
    """Average measurements of the same set by inverse variance. Return the weights and the averages."""
    weight: dict[Attributes, FloatArray] = {}
    sums: dict[Attributes, FloatArray] = {}
    for each in measurements:
        inverse = np.broadcast_to(each.deviation**-2.0, each.counts.shape)
        weight[each.attributes] = weight.get(each.attributes, 0.0) + inverse
        sums[each.attributes] = sums.get(each.attributes, 0.0) + inverse * each.counts
    return weight, {key: total / weight[key] for key, total in sums.items()}


def _bounded(factor: FloatArray) -> FloatArray:
    bounded: FloatArray = np.maximum(factor - factor.max(), _FLOOR)
    return bounded


def _others(clique: Attributes, kept: Attributes) -> tuple[int, ...]:
    return tuple(axis for axis, i in enumerate(clique) if i not in kept)


def _aligned(array: FloatArray, attributes: Attributes, clique: Attributes) -> FloatArray:
    """Reshape an array over some attributes of a clique so that it broadcasts over the clique."""
    sizes = dict(zip(attributes, array.shape, strict=True))
    return array.reshape([sizes.get(i, 1) for i in clique])


def _summed(array: FloatArray, clique: Attributes, kept: Attributes) -> FloatArray:
    summed: FloatArray = array.sum(axis=_others(clique, kept))
    return summed

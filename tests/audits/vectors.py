"""Audits of the vector mechanisms, on pairs of vectors and shapes found by search.

Metric mechanisms are audited against what they claim for the pair at hand, epsilon times its distance after clipping
(and, in the paper's form, what `pricing` charges for it); pure ones against epsilon.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from audits.kit import Audit, Case, FloatArray, Found, Scale, audit, by_law

from core.mechanisms.vectors.codebook import CodebookMechanism, TrainedCodebookMechanism
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.pricing import ADJACENCY_ALL, vector_events
from core.mechanisms.vectors.projection import VectorPack, spec_projection
from core.mechanisms.vectors.pure import PrivUnitMechanism, vector_mechanism
from core.mechanisms.vectors.release import VectorMechanism, Vectors
from core.mechanisms.vectors.spec import PACK_DIMENSION, vector_spec
from gpu_workers.packs import VECTOR_PACK

Generator = np.random.Generator
METRIC_ADJACENCY = "any two vectors; the claim is epsilon times their distance"
_ROWS = 20_000


def extremes(rng: Generator, dimension: int, directions: FloatArray) -> FloatArray:
    """Vectors at, inside and far outside the unit sphere, and the directions that a projection stretches most."""
    random = rng.normal(size=(4, dimension))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    unit = np.concatenate([np.eye(dimension)[:2], directions, random])
    lengths = rng.choice([1e-3, 0.5, 1.0, 1.0, 1.0, 40.0, 1e30], size=(len(unit), 1))
    return np.concatenate([unit * lengths, -unit * lengths, np.zeros((1, dimension))]).astype(np.float32)


def repeated(mechanism: VectorMechanism, vector: Vectors, runs: int) -> Vectors:
    return mechanism.release(np.repeat(vector[None], runs, axis=0))


def mechanism_of(name: str, epsilon: float, dimension: int, **rest: object) -> VectorMechanism:
    spec = vector_spec(mechanism=name, epsilon=epsilon, dimension=dimension, **rest)  # type: ignore[arg-type]
    pack = vector_pack() if spec.projection == "pca" else None
    return vector_mechanism(spec, spec_projection(spec, tenant="audit"), pack)


@lru_cache(maxsize=1)
def vector_pack() -> VectorPack:
    return VectorPack.load(Path(VECTOR_PACK))


def metric_cases(name: str, seed: int, shapes: tuple[tuple[int, int | None], ...], **rest: object) -> Iterator[Case]:
    """Cases of `laplace` and `privemb`: shapes are pairs of dimensions, of vectors and of releases."""
    rng = np.random.default_rng(seed)
    while True:
        dimension, output = shapes[rng.integers(len(shapes))]
        radius, epsilon = float(rng.choice([1e-3, 1.0, 50.0])), float(rng.choice([0.5, 1.0, 1.5]))
        mechanism = mechanism_of(
            name, round(epsilon / radius, 9), dimension, output_dimension=output, clip_norm=radius, **rest
        )
        assert isinstance(mechanism, MetricMechanism)
        directions = np.zeros((0, dimension))
        if mechanism.projection is not None:
            directions = np.linalg.svd(mechanism.projection.matrix.astype(np.float64), full_matrices=False)[2][:1]
        points = np.float32(radius) * extremes(rng, dimension, directions)
        first, second = points[rng.permutation(len(points))[:2]]
        yield from metric_case(mechanism, first, second)


def metric_case(mechanism: MetricMechanism, first: Vectors, second: Vectors) -> Iterator[Case]:
    spec = mechanism.spec
    inside = [clipped(each, spec.clip_norm) for each in (first, second)]
    distance = float(np.linalg.norm(inside[0] - inside[1]))
    if distance < 0.5 * spec.clip_norm:
        return  # the claim is near 0: nothing to see in a million runs
    per_unit = spec.epsilon
    if spec.beta is not None:
        spectral_norm_bound = mechanism.projection.spectral_norm_bound if mechanism.projection else 1.0
        per_unit = vector_events(spec, spectral_norm_bound=spectral_norm_bound)[0].epsilon_nano / 1e9
    near, far = mechanism.projected(np.stack(inside))

    def gain(released: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(released - far, axis=1) - np.linalg.norm(released - near, axis=1))

    def along(released: FloatArray) -> FloatArray:
        return np.asarray((released - near) @ (near - far))

    def close(released: FloatArray) -> FloatArray:
        return np.asarray(-np.linalg.norm(released - near, axis=1))

    def draw(side: int, runs: int, statistic: Callable[[FloatArray], FloatArray] = gain) -> FloatArray:
        return statistic(repeated(mechanism, (first, second)[side], runs).astype(np.float64))

    lengths = [f"{np.linalg.norm(each.astype(np.float64)) / spec.clip_norm:.3g}" for each in (first, second)]
    facts = f"{spec.dimension} to {spec.output_dimension} dimensions, lengths {' and '.join(lengths)} radii"
    for statistic, event in (
        (gain, "nearer to the one than to the other by most"),
        (along, "far out beyond the one"),
        (close, "close to the one"),
    ):
        yield Case(facts, per_unit * distance, partial(draw, statistic=statistic), event=event)


def clipped(vector: Vectors, radius: float) -> FloatArray:
    exact = vector.astype(np.float64)
    length = float(np.linalg.norm(exact))
    return exact * (radius / length) if length > radius else exact


def privunit_cases(seed: int) -> Iterator[Case]:
    """Cases of `privunit`; whether a release lies in one vector's cap and not in the other's."""
    rng = np.random.default_rng(seed)
    while True:
        dimension = int(rng.choice([1, 2, 8, 40]))
        mechanism = mechanism_of("privunit", 2.0, dimension)
        assert isinstance(mechanism, PrivUnitMechanism)
        points = extremes(rng, dimension, np.zeros((0, dimension)))
        pair = points[rng.permutation(len(points))[:2]]
        yield Case(f"{dimension} dimensions", 2.0, privunit_draw(mechanism, pair), event="in the one's cap")
        yield Case(f"{dimension} dimensions", 2.0, partial(long, mechanism, pair), event="a long release")


def long(mechanism: VectorMechanism, pair: Vectors, side: int, runs: int) -> FloatArray:
    return np.asarray(np.linalg.norm(repeated(mechanism, pair[side], runs).astype(np.float64), axis=1))


def privunit_draw(mechanism: PrivUnitMechanism, pair: Vectors) -> Callable[[int, int], FloatArray]:
    units = mechanism.directions(pair)

    def draw(side: int, runs: int) -> FloatArray:
        caps = repeated(mechanism, pair[side], runs).astype(np.float64) @ units.T * mechanism.law.mean
        inside = caps > mechanism.law.gamma
        return inside[:, 0].astype(np.float64) - inside[:, 1]

    return draw


def codebook_cases(seed: int, *, trained: bool, epsilon: float) -> Iterator[Case]:
    """Cases of both codebooks, whose law is known from the subsets of the two vectors."""
    rng = np.random.default_rng(seed)
    while True:
        if trained:
            mechanism = mechanism_of("codebook", epsilon, PACK_DIMENSION, projection="pca")
        else:
            dimension = int(rng.choice([4, 16]))
            mechanism = mechanism_of(
                "codebook", epsilon, dimension, projection=str(rng.choice(["identity", "orthonormal"]))
            )
        spec = mechanism.spec
        points = extremes(rng, spec.dimension, np.zeros((0, spec.dimension)))
        pair = points[rng.permutation(len(points))[:2]]
        yield codebook_case(mechanism, pair, epsilon)


def codebook_case(mechanism: VectorMechanism, pair: Vectors, epsilon: float) -> Case:
    assert isinstance(mechanism, CodebookMechanism | TrainedCodebookMechanism)
    vectors: Vectors = mechanism.vectors
    if isinstance(mechanism, TrainedCodebookMechanism):
        subsets = mechanism.codes(pair)[:, None]
    else:
        subsets = mechanism.subsets(pair)
    laws = np.ones((2, len(vectors)))
    for law, subset in zip(laws, subsets, strict=True):
        law[subset] = np.exp(epsilon)
        law /= law.sum()
    ratio, law = by_law(laws[0], laws[1])
    order, keys = _keys(vectors)

    def draw(side: int, runs: int) -> FloatArray:
        released = repeated(mechanism, pair[side], runs)
        return np.asarray(ratio[order[np.searchsorted(keys, _key(released))]])

    return Case(f"{mechanism.spec.dimension} dimensions, {len(vectors)} codes", epsilon, draw, law)


def _keys(vectors: Vectors) -> tuple[np.ndarray, np.ndarray]:
    keys = _key(vectors)
    order = keys.argsort()
    return order, keys[order]


def _key(vectors: Vectors) -> np.ndarray:
    """A number that tells the codebook's vectors apart."""
    weights = np.random.default_rng(0).normal(size=vectors.shape[1])
    return np.round((vectors.astype(np.float64) * weights).sum(axis=1), 9)


def audits() -> tuple[Audit, ...]:
    def run(cases: Callable[[], Iterator[Case]], pairs: int = 300, batch: int = _ROWS) -> Callable[[Scale], Found]:
        return lambda scale: audit(cases(), scale.at_most(1_000_000, pairs), batch=batch)

    projected = ((2, 1), (4, 1), (4, 2), (40, 2))
    metric: list[tuple[str, str, Callable[[Scale], Found]]] = [
        ("laplace", "laplace", run(lambda: metric_cases("laplace", 21, ((1, None), (2, None), (3, None), (8, None))))),
        (
            "privemb",
            "privemb, orthonormal",
            run(lambda: metric_cases("privemb", 22, projected, projection="orthonormal")),
        ),
        (
            "privemb-gaussian",
            "privemb, gaussian",
            run(lambda: metric_cases("privemb", 23, projected, projection="gaussian")),
        ),
        (
            "privemb-pca",
            "privemb, pca",
            run(lambda: metric_cases("privemb", 24, ((384, 1), (384, 4)), projection="pca"), 60),
        ),
        (
            "privemb-paper",
            "privemb, the paper's form",
            run(lambda: metric_cases("privemb", 25, ((40, 1), (40, 2)), strict=False, beta=0.9)),
        ),
    ]
    pure: list[tuple[str, str, Callable[[Scale], Found]]] = [
        ("privunit", "privunit", run(lambda: privunit_cases(26))),
        ("codebook", "codebook", run(lambda: codebook_cases(27, trained=False, epsilon=2.0), 200)),
        ("codebook-pca", "codebook, pca", run(lambda: codebook_cases(28, trained=True, epsilon=3.0), 200)),
    ]
    return (
        *(Audit(n, "vectors", m, "metric", METRIC_ADJACENCY, r, bar=0.6) for n, m, r in metric),
        *(Audit(n, "vectors", m, "pure", ADJACENCY_ALL, r, bar=0.6) for n, m, r in pure),
    )

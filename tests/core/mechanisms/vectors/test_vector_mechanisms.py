"""The private vector mechanisms: laws of their noise, what reaches it, and what is refused.

Tests of distributions fail by chance with a probability of at most 1e-6 each.
"""

import multiprocessing
import os

import mpmath
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from law_kit import follows
from scipy import stats

from core.errors import InvalidInput
from core.mechanisms.vectors import release
from core.mechanisms.vectors.projection import spec_projection
from core.mechanisms.vectors.pure import cap_law, vector_mechanism
from core.mechanisms.vectors.release import VectorMechanism, grid, noise_generator
from core.mechanisms.vectors.spec import VECTOR_MECHANISMS, vector_spec

ERROR_RATE = 1e-6


def made(mechanism: str, dimension: int, epsilon: float, **rest: object) -> VectorMechanism:
    spec = vector_spec(mechanism=mechanism, dimension=dimension, epsilon=epsilon, **rest)  # type: ignore[arg-type]
    return vector_mechanism(spec, spec_projection(spec, tenant="a"))


def unit_rows(count: int, dimension: int) -> np.ndarray:
    rows = np.random.default_rng(3).normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_metric_noise_has_its_law() -> None:
    for mechanism, rest in [
        ("laplace", {}),
        ("privemb", {"output_dimension": 5}),
        ("privemb", {"output_dimension": 5, "projection": "gaussian"}),
        ("privemb", {"strict": False, "output_dimension": 12, "beta": 0.9}),
    ]:
        metric = made(mechanism, 12, 2.0, **rest)
        spectral_norm_bound = 1.0 if metric.projection is None else metric.projection.spectral_norm_bound
        rate = 1.9 if metric.spec.beta else spectral_norm_bound
        x = unit_rows(1, 12)
        noise = metric.release(np.repeat(x, 20_000, axis=0)) - metric.clipped_projection(x)
        m = noise.shape[1]

        norms = np.linalg.norm(noise, axis=1)
        directions = noise / norms[:, None]

        assert stats.kstest(norms, stats.gamma(m, scale=rate / 2.0).cdf).pvalue > ERROR_RATE
        # a uniform direction: m |sum|^2 / n is chi-square of m degrees, and a coordinate's square is beta
        assert stats.chi2(m).sf(m * (directions.sum(axis=0) ** 2).sum() / len(noise)) > ERROR_RATE
        for j in range(m):
            assert stats.kstest(directions[:, j] ** 2, stats.beta(0.5, (m - 1) / 2).cdf).pvalue > ERROR_RATE
        products = (directions.T @ directions / len(noise))[np.triu_indices(m, 1)]
        assert np.abs(products).max() < 6 / np.sqrt(m * (m + 2) * len(noise))
        assert abs(stats.spearmanr(norms, directions[:, 0]).statistic) < 6 / np.sqrt(len(noise))


def test_privunit_draws_its_mixture() -> None:
    privunit = made("privunit", 16, 3.0)
    law = privunit.law
    x = unit_rows(1, 16)
    noisy = privunit.release(np.repeat(x, 40_000, axis=0)).astype(np.float64) * law.mean
    along = noisy @ x[0]
    above = along > law.gamma
    cut = stats.norm.cdf(law.gamma)
    assert stats.binomtest(int(above.sum()), len(along), law.threshold / 2.0**64).pvalue > ERROR_RATE
    assert stats.kstest(along[above], lambda t: (stats.norm.cdf(t) - cut) / (1 - cut)).pvalue > ERROR_RATE
    assert stats.kstest(along[~above], lambda t: stats.norm.cdf(t) / cut).pvalue > ERROR_RATE
    across = noisy - along[:, None] * x
    assert stats.kstest((across**2).sum(axis=1), stats.chi2(15).cdf).pvalue > ERROR_RATE
    assert abs(along.mean() / law.mean - 1) < 6 / law.mean / np.sqrt(len(along))  # unbiased


def test_the_cap_never_costs_more_than_epsilon() -> None:
    """p (1 - q) <= e^eps q (1 - p) for the threshold that is used, in 80 digits."""
    for epsilon_nano in [1, 10**6, 10**9, 10**10, 10**11, 10**12]:
        for dimension in [1, 2, 64, 1024]:
            law = cap_law(dimension=dimension, epsilon_nano=epsilon_nano)
            with mpmath.workdps(80):
                q = mpmath.erfc(mpmath.mpf(law.gamma) / mpmath.sqrt(2)) / 2
                p = mpmath.mpf(law.threshold) / 2**64
                cost = mpmath.log(p * (1 - q) / (q * (1 - p)))
                assert cost <= mpmath.mpf(epsilon_nano) / 10**9
                if dimension > 1:
                    assert cost >= mpmath.mpf(epsilon_nano) / 10**9 * (1 - mpmath.mpf(10) ** -4)
            drawn = law.draw(1000, noise_generator())
            assert np.isfinite(drawn).all()
            assert law.mean > 0


def test_what_is_beyond_metric_noise_is_closer_to_the_truth() -> None:
    """Mean cosines at 64 dimensions and a total epsilon of 10: .377 and .391 in the literature's terms."""
    rows = unit_rows(3_000, 64)

    def cosine(mechanism: str, epsilon: float) -> float:
        released = made(mechanism, 64, epsilon).release(rows)
        return float(((released * rows).sum(axis=1) / np.linalg.norm(released, axis=1)).mean())

    assert cosine("privunit", 10) == pytest.approx(0.377, abs=0.015)
    assert cosine("codebook", 10) == pytest.approx(0.391, abs=0.015)
    assert cosine("laplace", 5) == pytest.approx(0.085, abs=0.02)  # 2 eps is its worst case


def test_a_codebook_release_is_one_of_its_vectors_and_mostly_a_near_one() -> None:
    codebook = made("codebook", 300, 5.0, output_dimension=16)
    size, near = codebook.size
    rows = np.repeat(unit_rows(1, 300), 20_000, axis=0)
    released = codebook.release(rows)

    index = {row.tobytes(): i for i, row in enumerate(codebook.codebook.vectors(np.arange(size)))}
    drawn = np.array([index[row.tobytes()] for row in released])
    members = codebook.subsets(rows[:1])[0]

    assert len(set(members.tolist())) == near
    law = np.ones(size)
    law[members] = np.exp(5.0)
    group = np.arange(size) % 16  # of the others: each of them is drawn too seldom for a test of its own
    group[members] = 16 + np.arange(near)
    assert follows(np.bincount(group[drawn], minlength=16 + near), np.bincount(group, weights=law))


def test_a_subset_is_a_function_of_its_row_alone() -> None:
    codebook = made("codebook", 300, 4.0)
    rows = np.concatenate([unit_rows(300, 300), np.zeros((1, 300), dtype=np.float32)])
    together = np.sort(codebook.subsets(rows), axis=1)
    for i in (0, 1, 150, 300):
        assert np.array_equal(together[i], np.sort(codebook.subsets(rows[i : i + 1])[0]))
    assert np.array_equal(together[300], np.arange(codebook.size.neighbours))  # zero: all are equally near
    assert np.array_equal(together[:9], np.sort(codebook.subsets(rows[:9] * np.float32(2.0**100)), axis=1))


def test_clipping_moves_no_two_vectors_apart() -> None:
    metric = made("laplace", 6, 1.0, clip_norm=0.5)
    source = np.random.default_rng(8)
    rows = (source.normal(size=(4_000, 6)) * 10.0 ** source.uniform(-3, 3, size=(4_000, 1))).astype(np.float32)
    clipped = metric.clipped_projection(rows)
    assert np.linalg.norm(clipped, axis=1).max() <= 0.5 * (1 + 1e-12)
    before = np.linalg.norm(rows[0::2].astype(np.float64) - rows[1::2], axis=1)
    assert (np.linalg.norm(clipped[0::2] - clipped[1::2], axis=1) <= before * (1 + 1e-12)).all()
    short = np.linalg.norm(rows.astype(np.float64), axis=1) <= 0.5
    assert np.array_equal(clipped[short], rows[short])


@pytest.mark.parametrize("mechanism", VECTOR_MECHANISMS)
def test_every_finite_vector_is_released_and_no_other(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = made(mechanism, 8, 1.0)
    extreme = np.array([[0.0] * 8, [3.4e38] * 8, [1e-45] * 8, [-3.4e38] + [0.0] * 7], dtype=np.float32)
    beyond = np.array([[1.7e308] * 8, [5e-324] * 8, [-1e308, 1e-308] * 4])

    assert np.isfinite(vectors.release(beyond)).all()
    released = vectors.release(extreme)

    assert released.shape == (4, vectors.spec.output_dimension)
    assert released.dtype == np.float32
    assert np.isfinite(released).all()
    assert vectors.release(extreme[:0]).shape == (0, vectors.spec.output_dimension)
    monkeypatch.setattr("os.urandom", lambda _: pytest.fail("noise was drawn"))
    for bad in (np.nan, np.inf, -np.inf):
        broken = extreme.copy()
        broken[3, 2] = bad
        with pytest.raises(InvalidInput):
            vectors.release(broken)
    for shape in (extreme[0], extreme[:, :7], np.zeros((4, 8), dtype=np.float16), np.zeros((4, 8), dtype=np.int64)):
        with pytest.raises(InvalidInput):
            vectors.release(shape)


def test_large_calls_are_shared_among_threads_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "_blas_threads", lambda: 3)
    rows = np.repeat(unit_rows(300, 4096), 10, axis=0)
    for mechanism in ("laplace", "privunit"):
        wide = made(mechanism, 4096, 1_000.0)
        released = wide.release(rows)
        cosines = (released * rows).sum(axis=1) / np.linalg.norm(released, axis=1)
        assert (cosines > 0.12).mean() > 0.99  # rows in their places; privunit misses a few on purpose
        assert len(np.unique(released[:, :4], axis=0)) == len(rows), "no noise is used twice"


def test_released_numbers_lie_on_the_public_grid() -> None:
    metric = made("laplace", 3, 1.0)
    step = grid(metric.scale)
    assert metric.scale / 2**40 <= step < metric.scale / 2**39
    assert grid(1.0) == 2.0**-40
    steps = metric.release(np.zeros((500, 3), dtype=np.float32)).astype(np.float64) / step
    assert np.array_equal(steps, np.rint(steps))


def test_the_stream_is_aes_128_in_counter_mode_under_the_systems_key(monkeypatch: pytest.MonkeyPatch) -> None:
    key = os.urandom(16)
    monkeypatch.setattr(os, "urandom", lambda size: key[:size])
    stream = noise_generator().bit_generator.random_raw(64).astype("<u8").tobytes()
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    assert stream == b"".join(encryptor.update(block.to_bytes(16, "little")) for block in range(32))


def _released(mechanism: str) -> bytes:
    return made(mechanism, 8, 1.0).release(unit_rows(4, 8)).tobytes()


@pytest.mark.parametrize("mechanism", ["laplace", "privunit"])
@pytest.mark.usefixtures("processes")
def test_neither_calls_nor_forked_processes_share_a_stream(mechanism: str) -> None:
    own = [_released(mechanism) for _ in range(3)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        forked = pool.map(_released, [mechanism] * 6, chunksize=1)
    assert len(set(own + forked)) == 9

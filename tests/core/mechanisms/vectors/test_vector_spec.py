"""The parameters of a private vector release, its cost, and its public projections."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from core.accounting.events import Adjacency, Guarantee, Unit
from core.errors import InvalidInput
from core.mechanisms.vectors.pricing import vector_events, vector_facts
from core.mechanisms.vectors.projection import bound_spectral_norm, projection, spec_norm_bound, spec_projection
from core.mechanisms.vectors.spec import VECTOR_MECHANISMS, codebook_size, expected_cosine, vector_spec


def test_what_cannot_be_used_is_refused_by_name() -> None:
    for params, field in [
        ({"mechanism": "gauss"}, "mechanism"), ({"epsilon": 0}, "epsilon"), ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": -1}, "epsilon"), ({"epsilon": math.inf}, "epsilon"), ({"epsilon": 3e6}, "epsilon"),
        ({"epsilon": 10, "clip_norm": 1e6}, "epsilon"), ({"mechanism": "privunit", "epsilon": 1001}, "epsilon"),
        ({"mechanism": "privunit", "clip_norm": 1.0}, "clip_norm"), ({"clip_norm": math.nan}, "clip_norm"),
        ({"clip_norm": 0.0}, "clip_norm"), ({"dimension": 0}, "vectors"), ({"output_dimension": 0}, "dimension"),
        ({"output_dimension": 301}, "dimension"), ({"mechanism": "laplace", "output_dimension": 20}, "dimension"),
        ({"mechanism": "laplace", "projection": "gaussian"}, "projection"), ({"projection": "pca"}, "projection"),
        ({"strict": False, "projection": "orthonormal"}, "projection"),
        ({"mechanism": "laplace", "strict": False}, "strict"), ({"beta": 0.5}, "beta"), ({"delta": 1e-6}, "delta"),
        ({"strict": False, "delta": 1.0}, "delta"), ({"strict": False, "beta": 1.0}, "beta"),
        ({"strict": False, "beta": 0.1}, "beta"), ({"strict": False, "output_dimension": 10}, "dimension"),
    ]:  # fmt: skip
        with pytest.raises(InvalidInput) as refused:
            vector_spec(**{"mechanism": "privemb", "dimension": 300, "epsilon": 1.0, **params})  # type: ignore[arg-type]
        assert refused.value.field == field


def test_the_papers_form_has_the_papers_dimensions() -> None:
    """Feyisetan and Kasiviswanathan print 50, 100 and 200 for d = 300 and delta = 1e-6."""
    for beta, printed in ((0.93, 50), (0.66, 100), (0.468, 200)):
        spec = vector_spec(mechanism="privemb", dimension=300, epsilon=1, strict=False, beta=beta, delta=1e-6)
        assert spec.output_dimension == pytest.approx(printed, rel=0.011)
        back = vector_spec(
            mechanism="privemb", dimension=300, epsilon=1, strict=False, output_dimension=spec.output_dimension
        )
        assert back.beta == pytest.approx(beta, rel=0.01)


def test_a_metric_release_costs_its_rate_and_its_worst_case() -> None:
    for mechanism in ["privemb", "laplace"]:
        spec = vector_spec(mechanism=mechanism, dimension=300, epsilon=0.7, clip_norm=0.3)

        shown, whole = vector_events(spec, spectral_norm_bound=1.0)

        assert (shown.unit, shown.adjacency, shown.guarantee) == (Unit.VECTOR, Adjacency.METRIC, Guarantee.METRIC_DP)
        assert shown.epsilon_nano == 700_000_000
        assert (whole.unit, whole.guarantee, whole.debited_units) == (
            Unit.SENTENCE,
            Guarantee.PURE_DP,
            (Unit.SENTENCE, Unit.TOKEN),
        )
        assert whole.epsilon_nano == 420_000_000
        facts = vector_facts(spec, spectral_norm_bound=1.0)
        assert facts["epsilon_worst_case"] == 0.42
        assert facts["per"] == "unit of Euclidean distance"


def test_a_pure_release_costs_its_total() -> None:
    for mechanism in ["privunit", "codebook"]:
        spec = vector_spec(mechanism=mechanism, dimension=300, epsilon="2.5")
        (event,) = vector_events(spec, spectral_norm_bound=1.0)
        assert (event.unit, event.kind, event.epsilon_nano) == (Unit.SENTENCE, "pure", 2_500_000_000)
        assert (
            vector_facts(spec, spectral_norm_bound=1.0)["adjacency"] == "replace-one vector (any vector by any other)"
        )


def test_the_papers_form_is_charged_what_it_gives_every_input() -> None:
    spec = vector_spec(mechanism="privemb", dimension=300, epsilon=2, strict=False)
    spectral_norm_bound = spec_norm_bound(spec, tenant="a")
    exact = 2 * Fraction(spectral_norm_bound) / Fraction(1 + spec.beta)
    shown, whole = vector_events(spec, spectral_norm_bound=spectral_norm_bound)
    assert 0 <= shown.epsilon_nano - exact * 10**9 < 1
    assert whole.epsilon_nano == 2 * shown.epsilon_nano
    assert Decimal(shown.epsilon_nano) > 2 * 10**9  # a Gaussian matrix stretches some inputs by more than 1 + beta


def test_a_projection_never_stretches_by_more_than_it_says() -> None:
    for kind in ["orthonormal", "gaussian"]:
        for dimension, output_dimension in ((5, 5), (64, 1), (384, 64), (300, 200)):
            made = projection(tenant="a", kind=kind, dimension=dimension, output_dimension=output_dimension)
            largest = np.linalg.svd(made.matrix.astype(np.float64), compute_uv=False)[0]
            assert largest * (1 + 1e-11) < made.spectral_norm_bound < largest * (1 + 3e-5)
            if kind == "orthonormal":
                assert made.spectral_norm_bound == 1.0
                assert np.allclose(made.matrix @ made.matrix.T, np.eye(output_dimension), atol=5e-5)
            assert made.id == f"{kind}-{dimension}-{output_dimension}"
        exact = np.array([[3.0, 0.0], [0.0, 4.0]], dtype=np.float32)
        assert 4.0 < bound_spectral_norm(exact) < 4.0 + 1e-8


def test_a_tenant_has_one_projection_of_a_kind_and_shape() -> None:
    def matrix(tenant: str, kind: str = "gaussian") -> np.ndarray:
        projection.cache_clear()  # derived anew, as another process would
        return projection(tenant=tenant, kind=kind, dimension=40, output_dimension=8).matrix

    assert np.array_equal(matrix("a"), matrix("a"))
    assert not np.allclose(matrix("a"), matrix("b"))
    assert not np.allclose(matrix("a"), matrix("a", "orthonormal"))
    assert np.std(matrix("a")) * math.sqrt(8) == pytest.approx(1.0, abs=0.2)


def test_only_mechanisms_that_keep_the_space_go_without_a_projection() -> None:
    kinds = {}
    for mechanism in VECTOR_MECHANISMS:
        spec = vector_spec(mechanism=mechanism, dimension=384, epsilon=1)
        made = spec_projection(spec, tenant="a")
        kinds[mechanism] = made and made.id
    assert kinds == {
        "privemb": "orthonormal-384-64", "laplace": None, "privunit": None, "codebook": "orthonormal-384-64",
    }  # fmt: skip


def test_a_codebook_grows_until_more_vectors_would_change_little() -> None:
    sizes = [codebook_size(dimension=64, epsilon_nano=round(eps * 1e9)) for eps in (0.001, 1, 5, 8, 10, 20, 1000)]
    assert [size.vectors for size in sizes] == sorted(size.vectors for size in sizes)
    assert all(1 <= size.neighbours <= size.vectors // 2 for size in sizes)
    vectors, neighbours = sizes[4]
    assert vectors == 65_536
    assert expected_cosine(64, 10.0, neighbours / vectors) == pytest.approx(0.39, abs=0.02)

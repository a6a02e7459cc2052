"""Black-box privacy audits of the private vector mechanisms, on the two vectors that are furthest apart.

The event is one of high likelihood ratio between them; the bound is Clopper and Pearson's, one-sided, at a joint error
rate of 1e-6. AUDIT_RUNS enlarges the audits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from audit_kit import RUNS, epsilon_bound
from randomgen import AESCounter
from scipy.special import log_ndtr

from core.mechanisms.samplers import discrete_noise
from core.mechanisms.vectors import codebook, metric
from core.mechanisms.vectors.codebook_size import CodebookSize
from core.mechanisms.vectors.mechanism import vector_mechanism
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.privunit import PrivUnitMechanism
from core.mechanisms.vectors.projection import spec_projection
from core.mechanisms.vectors.release import VectorMechanism
from core.mechanisms.vectors.spec import vector_spec

pytestmark = pytest.mark.slow("statistics")

Hit = Callable[[np.ndarray], np.ndarray]
DIMENSION = 40


@dataclass(frozen=True)
class Case:
    """A mechanism, two opposite vectors, its claim for them and an event that tells them apart."""

    mechanism: VectorMechanism
    vector: np.ndarray
    claim: float
    hit: Hit


def mechanism_of(name: str, epsilon: float, **rest: object) -> VectorMechanism:
    rest = {"dimension": DIMENSION, **rest}
    spec = vector_spec(mechanism=name, epsilon=epsilon, **rest)  # type: ignore[arg-type]
    return vector_mechanism(spec, spec_projection(spec, tenant="a"))


def metric_case(name: str, **rest: object) -> Case:
    """Opposite points of the ball, where the projection stretches most; the event: nearer to the one by nearly all."""
    mechanism = mechanism_of(name, 1.0, **rest)
    assert isinstance(mechanism, MetricMechanism)
    vector = np.eye(1, mechanism.spec.dimension)
    if mechanism.projection is not None:
        vector = np.linalg.svd(mechanism.projection.matrix.astype(np.float64))[2][:1]
    vector = vector.astype(np.float32)
    near = mechanism.clipped_projection(vector)[0]
    reach = 2 * np.linalg.norm(near)

    def hit(released: np.ndarray) -> np.ndarray:
        gain = np.linalg.norm(released + near, axis=1) - np.linalg.norm(released - near, axis=1)
        return np.asarray(gain > 0.9 * reach)

    return Case(mechanism, vector, 2.0, hit)


def privunit_case() -> Case:
    mechanism = mechanism_of("privunit", 2.0)
    assert isinstance(mechanism, PrivUnitMechanism)
    vector = np.eye(1, DIMENSION, dtype=np.float32)
    return Case(mechanism, vector, 2.0, lambda released: released[:, 0] * mechanism.law.mean > mechanism.law.gamma)


def codebook_case(monkeypatch: pytest.MonkeyPatch) -> Case:
    """Eight vectors, one of which counts as near."""
    axes = np.concatenate([np.eye(4), -np.eye(4)]).astype(np.float32)
    made = codebook.Codebook(torch.tensor(axes * 50).to(torch.int8))
    monkeypatch.setattr(codebook, "codebook_size", lambda **_: CodebookSize(8, 1))
    monkeypatch.setattr(codebook, "spherical_codebook", lambda *_: made)
    mechanism = mechanism_of("codebook", 1.0, dimension=4)
    return Case(mechanism, axes[:1], 1.0, lambda released: released[:, 0] == 1.0)


CASES = {
    "laplace": lambda _: metric_case("laplace", dimension=2),
    "orthonormal": lambda _: metric_case("privemb", output_dimension=2),
    "gaussian": lambda _: metric_case("privemb", output_dimension=2, projection="gaussian"),
    "privunit": lambda _: privunit_case(),
    "codebook": codebook_case,
}


def epsilon_lower(case: Case) -> float:
    """A lower bound on epsilon between the case's vector and its opposite, but with probability 1e-6."""
    often, seldom = (
        int(case.hit(case.mechanism.release(np.repeat(x, RUNS, axis=0))).sum()) for x in (case.vector, -case.vector)
    )
    return epsilon_bound(often, seldom, RUNS)


@pytest.mark.parametrize("name", CASES)
def test_the_empirical_bound_stays_under_the_claim(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name](monkeypatch)
    bound = epsilon_lower(case)
    assert bound <= case.claim
    assert bound >= 0.75 * case.claim  # the audit has power: a third more would be seen


def test_the_papers_form_gives_what_is_charged_and_no_less() -> None:
    """Noise of rate 1 / (1 + beta) under a matrix that stretches by more: above eps, below what the account pays."""
    case = metric_case("privemb", strict=False, output_dimension=2, beta=0.9)
    assert case.mechanism.projection is not None
    charged = 2.0 * case.mechanism.projection.spectral_norm_bound / 1.9
    assert 2.0 < epsilon_lower(case) <= charged


@pytest.mark.parametrize("name", ["laplace", "orthonormal", "gaussian"])
def test_half_the_noise_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name](monkeypatch)
    assert isinstance(case.mechanism, MetricMechanism)
    case.mechanism.scale /= 2
    assert epsilon_lower(case) > case.claim


def test_the_papers_stretch_is_caught_in_the_strict_form(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["gaussian"](monkeypatch)
    assert isinstance(case.mechanism, MetricMechanism)
    case.mechanism.scale = (1.0 + 0.9) / case.mechanism.spec.epsilon
    assert epsilon_lower(case) > case.claim


def test_a_probability_of_another_cap_is_caught() -> None:
    case = privunit_case()
    assert isinstance(case.mechanism, PrivUnitMechanism)
    gamma = case.mechanism.law.gamma + 0.5
    case.mechanism.law = replace(case.mechanism.law, gamma=gamma, log_share=float(log_ndtr(-gamma)))
    assert epsilon_lower(case) > case.claim


def test_one_member_too_few_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    case = codebook_case(monkeypatch)
    right = discrete_noise._member_threshold
    monkeypatch.setattr(discrete_noise, "_member_threshold", lambda size, n, *rest: right(size, n + 1, *rest))
    assert epsilon_lower(case) > case.claim


@pytest.mark.parametrize("bug", [False, True])
def test_a_stream_that_is_used_again_is_caught(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call a run. The event: the very release of an earlier call for this vector."""
    case = metric_case("laplace", dimension=2)
    if bug:
        monkeypatch.setattr(metric, "noise_generator", lambda: np.random.Generator(AESCounter(key=7)))
    known = case.mechanism.release(case.vector)
    often, seldom = (
        sum(np.array_equal(case.mechanism.release(x), known) for _ in range(1_000)) for x in (case.vector, -case.vector)
    )
    assert epsilon_bound(often, seldom, 1_000) == -math.inf or bug
    assert (epsilon_bound(often, seldom, 1_000) > case.claim) == bug

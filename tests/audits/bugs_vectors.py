"""Planted bugs of the vector mechanisms and of their noise; each names the step of the proof it breaks."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audits.bug import Bug, Detector, check, over_claim
from audits.checks import in_two_children, vectors_ignore_their_company
from audits.kit import Case, FloatArray, Scale, audit
from audits.vectors import codebook_cases, mechanism_of, metric_cases, privunit_cases
from randomgen import AESCounter
from scipy.special import log_ndtr

from core.mechanisms.samplers import discrete_noise
from core.mechanisms.vectors import codebook, metric, pure, release
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.pure import CapLaw, PrivUnitMechanism
from core.mechanisms.vectors.release import row_norms


def _detector(name: str, cases: Callable[[], Iterator[Case]], pairs: int = 300) -> Detector:
    return over_claim(name, lambda: audit(cases(), Scale(100_000, pairs, 10_000)))


LAPLACE = _detector("audit of laplace", lambda: metric_cases("laplace", 41, ((1, None), (2, None), (3, None))))
GAUSSIAN = _detector(
    "audit of a gaussian projection", lambda: metric_cases("privemb", 42, ((2, 1), (4, 2)), projection="gaussian")
)
PRIVUNIT = _detector("audit of privunit", lambda: privunit_cases(43), 60)
CODEBOOK = _detector("audit of codebook", lambda: codebook_cases(44, trained=False, epsilon=2.0), 60)
TRAINED = _detector("audit of the trained codebook", lambda: codebook_cases(45, trained=True, epsilon=4.0), 60)


def planted_row() -> Iterator[Case]:
    """The attacker's own vector in the call: the distance between the two released vectors."""
    mechanism = mechanism_of("laplace", 1.0, 2)
    pair = np.array([[1, 0], [-1, 0]], dtype=np.float32)

    def draw(side: int, runs: int) -> FloatArray:
        released = [mechanism.release(np.stack([pair[side], pair[0]])) for _ in range(runs)]
        return np.asarray([-float(np.linalg.norm(one - other)) for one, other in released])

    yield Case("beside a vector of the attacker's", 2.0, draw)


COMPANION = over_claim("audit beside a planted vector", lambda: audit(planted_row(), Scale(3_000, 1, 1_000)))
FORKS = check(
    "forked releases draw independently",
    lambda: len(set(in_two_children(lambda: release.noise_generator().standard_normal(8).tobytes()))) == 2,
)
COMPANY = check("a vector's subset ignores its company", vectors_ignore_their_company)


def _releases_lie_on_the_grid() -> bool:
    """Numbers far smaller than the noise show whether the last digits were rounded away."""
    mechanism = mechanism_of("laplace", 1.0, 1)
    assert isinstance(mechanism, MetricMechanism)
    released = mechanism.release(np.zeros((2_000_000, 1), dtype=np.float32)).astype(np.float64)
    return bool((np.rint(released / release.grid(mechanism.scale)) * release.grid(mechanism.scale) == released).all())


GRID = check("releases are multiples of the public grid", _releases_lie_on_the_grid)


def _scale(change: Callable[[MetricMechanism], float]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real = MetricMechanism.__init__

        def broken(self: MetricMechanism, *args: Any) -> None:
            real(self, *args)
            self.scale = change(self)

        patch.setattr(MetricMechanism, "__init__", broken)

    return plant


def _method(kind: type, name: str, broken: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(kind, name, broken)


def _unclipped(self: MetricMechanism, vectors: Any) -> Any:
    return self.projected(vectors.astype(np.float64)) * 1.0


def _normalised(self: MetricMechanism, vectors: Any) -> Any:
    exact = vectors.astype(np.float64)
    return self.projected(exact) * (self.spec.clip_norm / np.maximum(row_norms(exact), 1e-300))[:, None]


def _clipped_after_by_coordinate(self: MetricMechanism, vectors: Any) -> Any:
    """A box in place of the ball."""
    return self.projected(np.clip(vectors.astype(np.float64), -self.spec.clip_norm, self.spec.clip_norm)) * 1.0


def _gaussian_noise(values: Any, *, scale: float, generator: Any) -> None:
    values += generator.normal(0.0, scale * np.sqrt(values.shape[1] + 1), values.shape)


def _short_radius(values: Any, *, scale: float, generator: Any) -> None:
    """The norm from Gamma(1) in every dimension."""
    drawn = generator.standard_normal(values.shape)
    drawn *= (scale * generator.standard_gamma(1, len(values)) / row_norms(drawn))[:, None]
    values += drawn


def _by_coordinate(values: Any, *, scale: float, generator: Any) -> None:
    """Independent Laplace numbers with the scale of the L2 norm."""
    values += generator.laplace(0.0, scale, values.shape) / np.sqrt(values.shape[1])


def _one_noise(values: Any, *, scale: float, generator: Any) -> None:
    drawn = np.zeros((1, values.shape[1]))
    release.add_l2_laplace(drawn, scale=scale, generator=generator)
    values += drawn


def _inherited_generator(patch: pytest.MonkeyPatch) -> None:
    generator = np.random.Generator(AESCounter(key=7))
    patch.setattr(release, "noise_generator", lambda: generator)


def _same_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metric, "noise_generator", lambda: np.random.Generator(AESCounter(key=7)))


def _no_grid(values: Any, *, scale: float) -> Any:
    return values.astype(np.float32)


def _another_cap(patch: pytest.MonkeyPatch) -> None:
    real = pure.cap_law

    def broken(**given: Any) -> CapLaw:
        law = real(**given)
        gamma = law.gamma + 0.5
        return replace(law, gamma=gamma, log_share=float(log_ndtr(-gamma)))

    patch.setattr(pure, "cap_law", broken)


def _more_odds(patch: pytest.MonkeyPatch) -> None:
    """The odds of e^eps q, without the division by 1 - q turned round: a cap of probability p in place of its odds."""
    real = pure.cap_law

    def broken(*, dimension: int, epsilon_nano: int) -> CapLaw:
        law = real(dimension=dimension, epsilon_nano=epsilon_nano)
        odds = np.exp(2 * epsilon_nano / 1e9) * np.exp(law.log_share) / (1 - np.exp(law.log_share))
        return replace(law, threshold=int(odds / (1 + odds) * 2.0**64))

    patch.setattr(pure, "cap_law", broken)


def _lengths_shine_through(self: PrivUnitMechanism, vectors: Any) -> Any:
    return np.clip(self.projected(vectors.astype(np.float64)), -50, 50) * 1.0


def _along_kept(patch: pytest.MonkeyPatch) -> None:
    """t drawn from the cap alone, never from its complement."""
    real = CapLaw.draw

    def broken(self: CapLaw, count: int, generator: Any) -> Any:
        return np.maximum(real(self, count, generator), self.gamma)

    patch.setattr(CapLaw, "draw", broken)


def _twice(module: Any, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    real = getattr(module, name)
    return lambda patch: patch.setattr(
        module, name, lambda rows, *, size, epsilon_nano: real(rows, size=size, epsilon_nano=2 * epsilon_nano)
    )


def _batch_exponent(patch: pytest.MonkeyPatch) -> None:
    """One power of two for a whole call: a row's code moves with its companions."""
    real = codebook._direction

    def broken(vectors: Any) -> Any:
        return real(np.round(vectors / max(1e-30, float(np.abs(vectors).max())), 2).astype(np.float32))

    patch.setattr(codebook, "_direction", broken)


def _own_neighbours(patch: pytest.MonkeyPatch) -> None:
    """Only the nearer half of the codebook can come out."""
    real = codebook.subset_selection

    def broken(subsets: Any, *, size: int, epsilon_nano: int) -> Any:
        drawn = real(subsets, size=size, epsilon_nano=epsilon_nano)
        inside = (subsets == drawn[:, None]).any(axis=1)
        near = (subsets[:, 0] + 1 + np.arange(len(drawn)) % 64) % size
        return np.where(inside, drawn, near)

    patch.setattr(codebook, "subset_selection", broken)


def _one_member_too_few(patch: pytest.MonkeyPatch) -> None:
    real = discrete_noise._member_threshold
    patch.setattr(discrete_noise, "_member_threshold", lambda size, n, *rest: real(size, min(2 * n, size - 1), *rest))


_METRIC, _NOISE = "laplace, privemb", "L2-Laplace noise"

BUGS: tuple[Bug, ...] = (
    Bug("half the noise", _METRIC, "noise of density exp(-eps |z| / s)", _scale(lambda own: own.scale / 2), LAPLACE),
    Bug(
        "a Gaussian matrix taken to stretch nothing",
        _METRIC,
        "s is at least the largest singular value",
        _scale(lambda own: 1.0 / own.spec.epsilon),
        GAUSSIAN,
    ),
    Bug(
        "half of the largest singular value",
        _METRIC,
        "|P c(x) - P c(x')| <= s |c(x) - c(x')|",
        _scale(
            lambda own: (
                0.5 * own.scale
                if own.projection is not None and own.projection.spectral_norm_bound > 1.3
                else own.scale
            )
        ),
        GAUSSIAN,
    ),
    Bug(
        "no clipping",
        _METRIC,
        "c clips to the ball",
        _method(MetricMechanism, "clipped_projection", _unclipped),
        LAPLACE,
    ),
    Bug(
        "normalised, not clipped",
        _METRIC,
        "c moves no two points apart",
        _method(MetricMechanism, "clipped_projection", _normalised),
        LAPLACE,
    ),
    Bug(
        "clipped by coordinate",
        _METRIC,
        "the ball is 2 C wide",
        _method(MetricMechanism, "clipped_projection", _clipped_after_by_coordinate),
        LAPLACE,
    ),
    Bug(
        "Gaussian noise of the same spread",
        _NOISE,
        "density proportional to exp(-|z| / scale)",
        lambda patch: patch.setattr(metric, "add_l2_laplace", _gaussian_noise),
        LAPLACE,
    ),
    Bug(
        "a radius of Gamma(1)",
        _NOISE,
        "the norm has the law Gamma(m, scale)",
        lambda patch: patch.setattr(metric, "add_l2_laplace", _short_radius),
        LAPLACE,
    ),
    Bug(
        "Laplace noise by coordinate",
        _NOISE,
        "the direction is uniform",
        lambda patch: patch.setattr(metric, "add_l2_laplace", _by_coordinate),
        LAPLACE,
    ),
    Bug(
        "noise drawn once a call",
        _NOISE,
        "each row is released by itself",
        lambda patch: patch.setattr(metric, "add_l2_laplace", _one_noise),
        COMPANION,
    ),
    Bug("a generator that children inherit", _NOISE, "no stream outlives the release", _inherited_generator, FORKS),
    Bug("the same key for every call", _NOISE, "a key fresh from the operating system", _same_key, COMPANION),
    Bug(
        "no grid",
        _NOISE,
        "the grid hides the last binary digits",
        lambda patch: patch.setattr(metric, "round_to_grid", _no_grid),
        GRID,
    ),
    Bug("the probability of another cap", "privunit", "p / (1 - p) <= e^eps q / (1 - q)", _another_cap, PRIVUNIT),
    Bug("odds at twice the epsilon", "privunit", "the coin of probability p", _more_odds, PRIVUNIT),
    Bug(
        "directions keep their length",
        "privunit",
        "only the direction is seen",
        _method(PrivUnitMechanism, "directions", _lengths_shine_through),
        PRIVUNIT,
    ),
    Bug("never outside the cap", "privunit", "else t is N given N <= gamma", _along_kept, PRIVUNIT),
    Bug(
        "selection at twice the epsilon",
        "codebook",
        "a uniform member with probability n e^eps / (n e^eps + N - n)",
        _twice(codebook, "subset_selection"),
        CODEBOOK,
    ),
    Bug("the threshold of twice the members", "codebook", "the member's threshold", _one_member_too_few, CODEBOOK),
    Bug("only neighbours can come out", "codebook", "else a uniform other one", _own_neighbours, CODEBOOK),
    Bug("one exponent a call", "codebook", "a function of the row alone", _batch_exponent, COMPANY),
    Bug(
        "responses at twice the epsilon",
        "codebook, pca",
        "k-ary randomised response over the N codes",
        _twice(codebook, "randomised_response"),
        TRAINED,
    ),
)

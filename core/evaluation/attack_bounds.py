"""What releases about one unit let an attacker do at most: tell two values apart, and guess one.

The attacker knows everything but one unit and sees `count` releases of one event. P and Q are the distributions of what
is seen for two values of the unit, and T(a) is the largest probability under P of a set of probability a under Q:
T = 1 - f for the trade-off function f of f-DP (Dong, Roth and Su 2022). T is concave and increasing. Three bounds
follow, for the quantities of Kulynych et al. 2024 (arXiv 2407.02191):

* **True positives.** A test for one value with false positives at rate a has true positives at rate T(a) at most.
* **Advantage.** True positives minus false positives are at most delta(0), the total variation distance.
* **Guesses.** Let E_z be the outcomes after which the guess is z, pi_z the prior of z, and Q the distribution of any
  fixed value. The guess is right with probability sum of pi_z P_z(E_z) <= sum of pi_z T(Q(E_z)) <=
  T(sum of pi_z Q(E_z)), by concavity. The last sum is the success of a guess that sees nothing of the unit, which is at
  most the prior of the most probable value. Under pure DP of total epsilon the odds of each value grow by e^epsilon at
  most, so prior / (prior + (1 - prior) e^-epsilon) bounds the success too, and even the certainty after the worst
  outcome. The smaller bound counts.

T follows from the privacy profile: T(a) is the least of delta + e^epsilon a and 1 - e^-epsilon (1 - delta - a) over all
epsilon >= 0, so any set of epsilons gives a bound. Gaussian noise has T(a) = Phi(Phi^-1(a) + mu). Pure releases are
dominated by randomised response, whose profile is exact. Laplace noise and permute-and-flip have their privacy loss
distribution, rounded up. An event that has only an (epsilon, delta) composes by summation. All hold for adaptive
inputs.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from core.accounting import pld
from core.accounting.certificate import copies, plan_event
from core.accounting.events import PrivacyEvent
from core.accounting.plans import Laplace
from core.amounts import delta_of, epsilon_of

Array = npt.NDArray[np.float64]

COUNT_MAX = 10_000
FALSE_POSITIVE_RATE = 0.01
PRIORS = (0.01, 0.1, 0.5)
_POINTS = 400  # of a profile; fewer make the bounds looser
_ROUND_UP = 1 + 1e-9


@dataclass(frozen=True)
class Guess:
    """A guess that is right with probability `prior` without the releases is right with `success` with them, at
    most."""

    prior: float
    success: float


@dataclass(frozen=True)
class AttackBounds:
    """Upper bounds for an attacker who sees `count` releases. `epsilon`: their sum under pure DP, None without it.
    `true_positive_rate`: at false positives of FALSE_POSITIVE_RATE."""

    count: int
    epsilon: float | None
    advantage: float
    true_positive_rate: float
    guesses: tuple[Guess, ...]


def attack_bounds(event: PrivacyEvent, *, count: int = 1) -> AttackBounds:
    """Return the bounds for `count` releases of `event`, whose adjacency is replacing one unit.

    Raises: ValueError for a count outside 1 to COUNT_MAX; UnsupportedEvent for an event under metric adjacency.
    """
    if not 1 <= count <= COUNT_MAX:
        raise ValueError("the number of releases is out of range")
    is_pure = event.noise_multiplier is None and event.delta_femto == 0
    epsilon = count * epsilon_of(event.epsilon_nano) if is_pure else None
    profile = _profile(event, count)

    def guess(prior: float) -> Guess:
        success = profile.positives(prior)
        if epsilon is not None:  # e^-epsilon does not overflow
            success = min(success, prior / (prior + (1 - prior) * math.exp(-epsilon)))
        return Guess(prior, min(1.0, success * _ROUND_UP))

    return AttackBounds(
        count,
        epsilon,
        min(1.0, profile.advantage * _ROUND_UP),
        min(1.0, profile.positives(FALSE_POSITIVE_RATE) * _ROUND_UP),
        tuple(map(guess, PRIORS)),
    )


@dataclass(frozen=True)
class _Normal:
    """Gaussian releases with this sensitivity over standard deviation, together."""

    mu: float

    @property
    def advantage(self) -> float:
        return float(2 * ndtr(self.mu / 2) - 1)

    def positives(self, rate: float) -> float:
        return float(ndtr(ndtri(rate) + self.mu))


@dataclass(frozen=True)
class _Points:
    """A profile by its delta at some epsilons, of which the first is 0."""

    epsilons: Array
    deltas: Array

    @property
    def advantage(self) -> float:
        return float(self.deltas[0])

    def positives(self, rate: float) -> float:
        with np.errstate(over="ignore"):
            low = self.deltas + np.exp(self.epsilons) * rate
        high = 1 - np.exp(-self.epsilons) * (1 - self.deltas - rate)
        return float(min(low.min(), high.min()))


def _profile(event: PrivacyEvent, count: int) -> _Normal | _Points:
    if event.noise_multiplier is not None:
        return _Normal(math.sqrt(count) / event.noise_multiplier)
    if event.delta_femto > 0:  # basic composition
        epsilon, delta = count * epsilon_of(event.epsilon_nano), min(1.0, count * delta_of(event.delta_femto))
        at_zero = 1 - (1 - delta) * 2 / (1 + math.exp(epsilon)) if epsilon < _EXPONENT_MAX else 1.0
        return _Points(np.array([0.0, epsilon]), np.array([at_zero, delta]))
    plan = plan_event(event)
    if isinstance(plan, Laplace):
        return _of_distribution(plan, count)
    return _of_responses(epsilon_of(event.epsilon_nano) / copies(event), count * copies(event))


_EXPONENT_MAX = 700.0


def _of_responses(epsilon: float, count: int) -> _Points:
    """Return the profile of `count` randomised responses (the formula is that of `core.accounting.exact`). Between two
    lattice points of the loss both terms of T are monotonic in e^epsilon, so that the lattice gives T exactly."""
    probabilities = binom.pmf(np.arange(count + 1), count, 1 / (1 + math.exp(-epsilon)))
    losses = (2 * np.arange(count + 1) - count) * epsilon
    lattice = np.concatenate([[0.0], losses[losses > 0]])
    chosen = lattice[np.unique(np.linspace(0, len(lattice) - 1, _POINTS).astype(int))]
    deltas = [float(probabilities @ -np.expm1(np.minimum(0.0, at - losses))) for at in chosen]
    return _Points(chosen, np.minimum(1.0, np.array(deltas) * _ROUND_UP))


def _of_distribution(plan: Laplace, count: int) -> _Points:
    composed = pld.compose(((plan, count),), pld.grid_interval(((plan, count),)))
    epsilons = np.linspace(0.0, min(count * plan.epsilon, _EXPONENT_MAX), _POINTS)
    with np.errstate(over="ignore", invalid="ignore"):
        deltas = np.asarray(composed.get_delta_for_epsilon(epsilons), dtype=np.float64)
    return _Points(epsilons, np.where(np.isfinite(deltas), np.clip(deltas, 0.0, 1.0), 1.0))

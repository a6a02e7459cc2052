"""Privacy events: what the releases of mechanisms cost. Accountants and the ledger depend on events, not on mechanisms.

An event is frozen. Its unit defines *what* may be replaced or removed, its adjacency defines *how*. An account never
sums events of another unit or adjacency.

`moments_of` has the cumulants of an event's privacy loss in closed form, which the ledger sums for the dashboard's
estimates. L = ln(dP/dQ), X is L under Q, Y is L under P. This module uses only `math`, because the front end computes
the cumulants with each request.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from core.amounts import NANO, delta_of, epsilon_of
from core.errors import UnitMismatch


class Unit(StrEnum):
    """What one privacy unit is. There is one account for each unit."""

    TOKEN = "token"  # noqa: S105 - a privacy unit, not a secret
    SENTENCE = "sentence"
    VECTOR = "vector"
    RECORD = "record"


class Adjacency(StrEnum):
    """Which pairs of inputs are neighbours."""

    REPLACE_ONE = "replace-one"
    METRIC = "metric"


class Guarantee(StrEnum):
    """The value of `privacy.guarantee` in a response."""

    PURE_DP = "pure-dp"
    APPROX_DP = "approx-dp"
    METRIC_DP = "metric-dp"
    NONE = "none"


ACCOUNT_ADJACENCY: dict[Unit, Adjacency] = {
    Unit.TOKEN: Adjacency.REPLACE_ONE,
    Unit.SENTENCE: Adjacency.REPLACE_ONE,
    Unit.VECTOR: Adjacency.METRIC,
    Unit.RECORD: Adjacency.REPLACE_ONE,
}

# The known facts about a release. They determine its price (see `core.accounting.filters`):
KINDS = frozenset(
    {
        "exponential",  # exponential mechanism with weights e^(eps u / 2 Delta): eps-bounded range
        "permute_and_flip",  # pure eps, not bounded range: priced as Laplace
        "two_geometric",  # two-sided geometric noise of eps / 2 on two numbers, each of which moves by 1
        "laplace",  # Laplace noise on one number, scale = sensitivity / eps
        "pure",  # pure eps, no further property known
        "metric",  # metric DP in a domain whose diameter D is enforced by clipping: pure at eps * D
        "gaussian",  # Gaussian noise of `noise_multiplier` times the l2 sensitivity
        "approximate",  # only an (eps, delta): basic composition only
    }
)

# A release at a coarser unit also debits the finer units inside it. This debit is a guarantee where replacing one finer
# unit is one way of replacing a coarser one, such as a token inside a sentence that the caller sent. It is not a
# guarantee where the gateway segments the text, because one token can change the number of sentences
# (`core.mechanisms.sentences.registry`). The finer account is debited in that case too, so that it never counts less
# than what it covers.
_DEBITED: dict[Unit, tuple[Unit, ...]] = {
    Unit.TOKEN: (Unit.TOKEN,),
    Unit.SENTENCE: (Unit.SENTENCE, Unit.TOKEN),
    Unit.VECTOR: (Unit.VECTOR,),
    Unit.RECORD: (Unit.RECORD,),
}


@dataclass(frozen=True)
class PrivacyEvent:
    """One release of one mechanism on one document.

    `kind` names the row of the accounting table that prices the event, one of KINDS. `epsilon_nano` and `delta_femto`
    are rounded up. A `gaussian` event has a `noise_multiplier` (standard deviation over the l2 sensitivity under the
    event's adjacency, a lower bound of the value used). Its epsilon and delta are either both 0, or both positive; in
    the latter case it satisfies that (epsilon, delta). No other kind has a noise multiplier.

    Raises: ValueError for anything else; UnitMismatch if the adjacency is not that of the unit's accounts.
    """

    mechanism: str
    kind: str
    unit: Unit
    adjacency: Adjacency
    guarantee: Guarantee
    epsilon_nano: int
    delta_femto: int = 0
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError("unknown kind of event")
        if self.kind == "gaussian":
            noise = self.noise_multiplier
            if noise is None or not math.isfinite(noise) or noise <= 0:
                raise ValueError("a gaussian event has a positive, finite noise multiplier")
            if min(self.epsilon_nano, self.delta_femto) < 0 or (self.epsilon_nano == 0) != (self.delta_femto == 0):
                raise ValueError("a gaussian event has an epsilon and a delta of its own, or neither")
        elif self.noise_multiplier is not None:
            raise ValueError("only a gaussian event has a noise multiplier")
        elif self.epsilon_nano <= 0 or self.delta_femto < 0:
            raise ValueError("an event costs a positive epsilon and a delta of at least 0")
        if ACCOUNT_ADJACENCY[self.unit] is not self.adjacency:
            raise UnitMismatch

    def privacy_block(self) -> dict[str, Any]:
        """Return the guarantee as responses and jobs show it."""
        return {
            "guarantee": self.guarantee.value,
            "unit": self.unit.value,
            "adjacency": self.adjacency.value,
            "epsilon": epsilon_of(self.epsilon_nano),
            "delta": delta_of(self.delta_femto),
            "mechanism": self.mechanism,
        }

    @property
    def debited_units(self) -> tuple[Unit, ...]:
        """The units whose accounts this event debits, the event's own unit first."""
        return _DEBITED[self.unit]


CUMULANTS = 5
TWO_RESPONSES = 2**52  # above every epsilon in nano; the sum stays below 2^53
_SERIES_MAX = 20.0


@lru_cache(maxsize=4096)
def moments_of(event: PrivacyEvent) -> tuple[float, ...] | None:
    """Return cumulants 1 to 5 of X, then 1 to 5 of Y, of the event's dominating pair. Cumulants add over releases.

    The pair is randomised response for `pure`, `metric` and `exponential`, two of them at half epsilon for
    `two_geometric`, Laplace noise for `laplace` and `permute_and_flip`, Gaussian noise for `gaussian`. Returns None if
    no pair is known: for an event with only an (epsilon, delta), and under metric adjacency, where the pair depends on
    the distance.
    """
    if event.adjacency is Adjacency.METRIC:
        return None
    if event.noise_multiplier is not None:
        square = event.noise_multiplier**-2 if event.noise_multiplier > 1e-100 else math.inf
        return (-square / 2, square, 0.0, 0.0, 0.0, square / 2, square, 0.0, 0.0, 0.0) if square < math.inf else None
    if event.kind == "approximate" or event.delta_femto > 0:
        return None
    epsilon = event.epsilon_nano / NANO
    if event.kind in ("laplace", "permute_and_flip"):
        y = _laplace(epsilon)
    elif event.kind == "two_geometric":
        y = tuple(2 * cumulant for cumulant in _randomised_response(epsilon / 2))
    else:
        y = _randomised_response(epsilon)
    # both pairs are symmetric: -Y has the distribution of X
    return (-y[0], y[1], -y[2], y[3], -y[4], *y)


def pure_epsilon_nano(event: PrivacyEvent) -> int | None:
    """Return the epsilon of an event whose dominating pair is randomised response, else None.

    The pair of `two_geometric` is two randomised responses at half epsilon; the result is TWO_RESPONSES plus epsilon.
    A history in which all events have the same number composes exactly, as a binomial.
    """
    if event.delta_femto > 0:
        return None
    if event.kind == "two_geometric":
        return TWO_RESPONSES + event.epsilon_nano
    return event.epsilon_nano if event.kind in ("pure", "metric", "exponential") else None


def _randomised_response(epsilon: float) -> tuple[float, ...]:
    """Y is epsilon (2B - 1), where B is Bernoulli with odds e^epsilon."""
    tilt = math.tanh(epsilon / 2)
    variance = math.exp(-epsilon) / (1 + math.exp(-epsilon)) ** 2  # of B
    width = 2 * epsilon
    return (
        epsilon * tilt,
        width**2 * variance,
        -(width**3) * variance * tilt,
        width**4 * variance * (1 - 6 * variance),
        -(width**5) * variance * tilt * (1 - 12 * variance),
    )


def _laplace(epsilon: float) -> tuple[float, ...]:
    """Y is epsilon (1 - 2U). epsilon U is 0 with probability 1/2, otherwise exponential and truncated at epsilon.

    Therefore E U^n = (n/2) gamma(n, epsilon) / epsilon^n. The moments of U have the size of its spread, so nothing
    cancels.
    """
    m1, m2, m3, m4, m5 = (n / 2 * _gamma_ratio(n, epsilon) for n in range(1, 6))
    c2 = m2 - m1**2
    c3 = m3 - 3 * m1 * m2 + 2 * m1**3
    c4 = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
    c5 = m5 - 5 * m1 * m4 + 10 * m1**2 * m3 - 10 * m1**3 * m2 + 4 * m1**5
    width = -2 * epsilon
    return (
        epsilon + math.expm1(-epsilon),
        width**2 * c2,
        width**3 * c3,
        width**4 * (c4 - 3 * c2**2),
        width**5 * (c5 - 10 * c3 * c2),
    )


def _gamma_ratio(n: int, x: float) -> float:
    """Return gamma(n, x) / x^n, with the lower incomplete gamma, by a series of positive terms or in closed form."""
    if x < _SERIES_MAX:
        term = total = 1 / n
        k = n
        while term > 1e-17 * total:
            k += 1
            term *= x / k
            total += term
        return math.exp(-x) * total
    rest = math.exp(-x) * sum(x**k / math.factorial(k) for k in range(n))
    return math.factorial(n - 1) * (1 - rest) / x**n

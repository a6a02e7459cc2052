"""The plan of a private fine-tuning: sampling, steps and noise, fixed before a row is read, and its certificate.

Guarantee: `PrivacyPlan.steps` steps of DP-SGD, with batches by the plan's sampling and noise by `core.finetune.noise`
at the plan's noise multiplier, are (certificate.epsilon, delta)-DP for one row, certified by privacy loss
distributions. Adjacency: add-remove. Sampling:

* Poisson (`core.finetune.poisson`): every row joins a step's batch independently with probability batch / rows.
* random allocation (`core.finetune.random_allocation`): in each epoch every row joins exactly one of its steps, chosen
  uniformly and independently of other rows.

Public: the number of rows as the caller declares it, the expected batch, the steps, the names of the labels. The
declared number determines the sampling probability or the steps of an epoch. It is not counted from the data, so it is
the same for both neighbours.

The Edgeworth estimate only seeds the search (`core.accounting.calibrate`). EW-Tune (Behnia et al. 2022) sets the noise
by the estimate itself, which costs more than it states: docs/concepts/private-fine-tuning.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from core.accounting.answers import Certificate, Line
from core.accounting.calibrate import calibrate_allocation, calibrate_noise
from core.accounting.compare import compare
from core.accounting.gaussian import epsilon_of_gaussian
from core.accounting.plans import (
    PlanAdjacency,
    RandomAllocation,
    SubsampledGaussian,
    check_count,
    check_delta,
    check_number,
)
from core.accounting.pld import certified_epsilon
from core.errors import OutOfRange

ROWS_MIN = 20
ROWS_MAX = 1 << 32
EPOCHS_MAX = 1_000
STEPS_MAX = 1_000_000
# A plan is rejected if a signal common to all rows exceeds its noise by less than this number of deviations.
_UNISON_DEVIATIONS_MIN = 20.0


class Sampling(StrEnum):
    """How rows are assigned to batches."""

    POISSON = "poisson"
    RANDOM_ALLOCATION = "random_allocation"


@dataclass(frozen=True)
class PrivacyPlan:
    """The parameters of a training and their cost. `epsilon` is the target.

    `batch` is the expected size of a batch. With random allocation an epoch has round(rows / batch) steps, and `steps`
    is a multiple of that.
    """

    epsilon: float
    delta: float
    rows: int
    batch: int
    steps: int
    noise_multiplier: float
    certificate: Certificate
    sampling: Sampling = Sampling.POISSON

    @property
    def sampling_rate(self) -> float:
        """For Poisson sampling: the probability that a row is in a step's batch, batch / rows, rounded up."""
        return _rate(self.rows, self.batch)

    @property
    def epoch_steps(self) -> int:
        """For random allocation: the steps of an epoch."""
        return epoch_steps(rows=self.rows, batch=self.batch)

    @property
    def releases(self) -> int:
        """The number of releases of `event` that the plan composes: its steps, or the epochs of random allocation."""
        return self.steps if self.sampling is Sampling.POISSON else self.steps // self.epoch_steps

    def event(self, adjacency: PlanAdjacency = PlanAdjacency.ADD_REMOVE) -> SubsampledGaussian | RandomAllocation:
        """Return one release, for the accountants: a step, or an epoch of random allocation."""
        if self.sampling is Sampling.POISSON:
            return SubsampledGaussian(self.sampling_rate, self.noise_multiplier, adjacency)
        return RandomAllocation(self.epoch_steps, self.noise_multiplier, adjacency)


def epoch_steps(*, rows: int, batch: int) -> int:
    """Return the steps of an epoch of random allocation: rows / batch, rounded. A step expects rows / steps rows."""
    return max(1, round(rows / batch))


def steps_of(*, rows: int, batch: int, epochs: float, sampling: Sampling = Sampling.POISSON) -> int:
    """Return the number of steps in which a row is expected to be read `epochs` times, at least 1.

    Raises OutOfRange, also for a fraction of an epoch of random allocation.
    """
    _check_rows(rows, batch)
    check_number(epochs, field="epochs", low=1e-6, high=EPOCHS_MAX)
    if sampling is Sampling.POISSON:
        return max(1, round(epochs * rows / batch))
    if epochs != round(epochs):
        raise OutOfRange("random allocation takes a whole number of epochs", field="epochs")
    return round(epochs) * epoch_steps(rows=rows, batch=batch)


def plan_training(
    *, epsilon: float, delta: float, rows: int, batch: int, steps: int, sampling: Sampling = Sampling.POISSON
) -> PrivacyPlan:
    """Return the plan with the least noise that is certified (epsilon, delta)-DP. Takes up to some seconds.

    Raises OutOfRange as `check_training`, else as `calibrate_noise` and `calibrate_allocation`.
    """
    check_training(epsilon=epsilon, delta=delta, rows=rows, batch=batch, steps=steps, sampling=sampling)
    if sampling is Sampling.POISSON:
        found = calibrate_noise(epsilon, delta, sampling_rate=_rate(rows, batch), steps=steps)
    else:
        each = epoch_steps(rows=rows, batch=batch)
        found = calibrate_allocation(epsilon, delta, steps=each, epochs=steps // each)
    return PrivacyPlan(epsilon, delta, rows, batch, steps, found.noise_multiplier, found.certificate, sampling)


def check_training(
    *, epsilon: float, delta: float, rows: int, batch: int, steps: int, sampling: Sampling = Sampling.POISSON
) -> None:
    """Check everything about a plan that can be checked before its noise is calibrated.

    Raises OutOfRange with the field: fewer than ROWS_MIN rows or fewer than a batch (`rows`, `batch`); a delta above
    1 / rows, which would permit publishing one whole row (`delta`); an epsilon at which nothing can be learnt, with the
    smallest that suffices (`epsilon`); no steps, too many, or a fraction of an epoch of random allocation (`steps`).
    """
    _check_rows(rows, batch)
    check_count(steps)
    if sampling is Sampling.RANDOM_ALLOCATION and steps % (each := epoch_steps(rows=rows, batch=batch)):
        raise OutOfRange(f"with random allocation, steps must be a multiple of {each}, an epoch", field="steps")
    if steps > STEPS_MAX:
        raise OutOfRange(f"steps must be at most {STEPS_MAX}", field="steps")
    check_delta(delta)
    if delta > 1 / rows:
        raise OutOfRange(f"delta must be at most 1 / rows, {1 / rows:.3g}", field="delta")
    smallest = smallest_epsilon(delta, rows=rows)
    if not epsilon >= smallest:
        raise OutOfRange(
            f"with {rows} rows nothing can be learnt below epsilon {_rounded_up(smallest):g}", field="epsilon"
        )


def smallest_epsilon(delta: float, *, rows: int) -> float:
    """Return the epsilon below which a plan is rejected as useless, whatever its batch and steps.

    Suppose that all rows have the same gradient of full length in every step. The sum of the updates is then
    steps * batch clipping norms long, and its noise has the deviation sqrt(steps) * noise_multiplier of them. Their
    ratio is rows * mu, where mu = (batch / rows) sqrt(steps) / noise_multiplier. With much noise the run is nearly
    the Gaussian mechanism of that mu (Bu, Dong, Long and Su 2020). If the ratio is below 20, even this signal is hard
    to distinguish from noise, and a signal of some rows much more so.
    """
    return epsilon_of_gaussian(delta, _UNISON_DEVIATIONS_MIN / rows)


def by_every_accountant(plan: PrivacyPlan) -> tuple[Line, ...]:
    """Return epsilon of the plan at its delta by every accountant: bounds, and estimates that are marked as such.

    The line of `pld` equals the certificate to the last digit, because it uses the certificate's loss grid.
    """
    return compare(plan.event(), plan.releases, plan.delta, interval=plan.certificate.loss_interval or None)


def replace_one_epsilon(plan: PrivacyPlan) -> float:
    """Return the certified epsilon of the same run, at the same delta, if neighbours differ in the value of one row.

    Accounts of records use this adjacency (`core.accounting.events`).
    """
    event = plan.event(PlanAdjacency.REPLACE_ONE)
    return certified_epsilon(((event, plan.releases),), plan.delta)


def _rate(rows: int, batch: int) -> float:
    return min(1.0, math.nextafter(batch / rows, 1.0))


def _check_rows(rows: int, batch: int) -> None:
    if isinstance(rows, bool) or not isinstance(rows, int) or not ROWS_MIN <= rows <= ROWS_MAX:
        raise OutOfRange(f"the number of rows must be between {ROWS_MIN} and {ROWS_MAX}", field="rows")
    if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= rows:
        raise OutOfRange("the expected batch must be a whole number between 1 and the rows", field="batch")


def _rounded_up(value: float) -> float:
    """Round up to two digits."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit * (1 - 1e-12)) * unit

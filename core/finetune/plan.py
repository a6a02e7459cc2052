"""The plan of a private fine-tuning: sampling, steps and noise, fixed before a row is read, its certificate and price.

Guarantee: `PrivacyPlan.steps` steps of DP-SGD, with batches by the plan's sampling and noise by
`core.finetune.sampling` at the plan's noise multiplier, are (certificate.epsilon, delta)-DP for one row, certified by
privacy loss distributions. Adjacency: add-remove. Sampling:

* Poisson (`sampling.poisson_batch`): every row joins a step's batch independently with probability batch / rows.
* random allocation (`sampling.random_allocation`): in each epoch every row joins exactly one of its steps, chosen
  uniformly and independently of other rows.

* the counts of the labels (`sampling.noisy_counts`), where the caller has not declared their shares: pure epsilon-DP at
  `counts_epsilon`. A row counts for one label, so adding or removing it changes one count by 1. The certificate is the
  sum of this epsilon and that of the steps, by composition; their target is what the counts leave of `epsilon`.
  Replacing a row changes two counts, and costs twice as much.

Public: the number of rows as the caller declares it, the expected batch, the steps, the names of the labels. The
declared number determines the sampling probability or the steps of an epoch. It is not counted from the data, so it is
the same for both neighbours.

The Edgeworth estimate only seeds the search (`core.accounting.planning`). EW-Tune (Behnia et al. 2022) sets the noise
by the estimate itself, which costs more than it states: docs/concepts/private-fine-tuning.md.

The cost on the record account is one event for the whole run. The account counts releases for neighbours in which one
record has another value. Therefore the charge is the certified epsilon of the run under replace-one. That under
add-remove is lower (docs/adr/0018-private-training.md).
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.accounting.exact import epsilon_of_gaussian
from core.accounting.planning import calibrate_allocation, calibrate_noise, compare
from core.accounting.plans import (
    Certificate,
    Line,
    PlanAdjacency,
    RandomAllocation,
    Result,
    SubsampledGaussian,
    check_count,
    check_delta,
    check_number,
)
from core.accounting.pld import certified_epsilon
from core.amounts import EPSILON_MAX, cost_nano, delta_of, epsilon_of, limit_femto, limit_nano
from core.errors import InvalidInput, OutOfRange

ROWS_MIN = 20
ROWS_MAX = 1 << 32
EPOCHS_MAX = 1_000
STEPS_MAX = 1_000_000
# A plan is rejected if a signal common to all rows exceeds its noise by less than this number of deviations.
_UNISON_DEVIATIONS_MIN = 20.0
# The share of epsilon for counts of the labels: at 8, their noise has a standard deviation of 3.
_COUNTS_SHARE, _COUNTS_EPSILON_MAX = 1 / 16, 0.5


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
    counts_epsilon_nano: int = 0  # of the counts of the labels; 0 where they are not released

    @property
    def counts_epsilon(self) -> float:
        return epsilon_of(self.counts_epsilon_nano)

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
    *,
    epsilon: float,
    delta: float,
    rows: int,
    batch: int,
    steps: int,
    sampling: Sampling = Sampling.POISSON,
    counted: bool = False,
) -> PrivacyPlan:
    """Return the plan with the least noise that is certified (epsilon, delta)-DP. Takes up to some seconds.

    counted: whether the labels are counted under differential privacy, which takes a share of epsilon.

    Raises OutOfRange as `check_training`, else as `calibrate_noise` and `calibrate_allocation`.
    """
    check_training(epsilon=epsilon, delta=delta, rows=rows, batch=batch, steps=steps, sampling=sampling)
    counts_nano = limit_nano(min(_COUNTS_SHARE * epsilon, _COUNTS_EPSILON_MAX)) if counted else 0
    left = math.nextafter(epsilon - epsilon_of(counts_nano), 0.0) if counted else epsilon
    if sampling is Sampling.POISSON:
        found = calibrate_noise(left, delta, sampling_rate=_rate(rows, batch), steps=steps)
    else:
        each = epoch_steps(rows=rows, batch=batch)
        found = calibrate_allocation(left, delta, steps=each, epochs=steps // each)
    whole = replace(found.certificate, epsilon=_sum(found.certificate.epsilon, epsilon_of(counts_nano)))
    return PrivacyPlan(epsilon, delta, rows, batch, steps, found.noise_multiplier, whole, sampling, counts_nano)


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

    The line of `pld` equals the certificate to the last digit, because it uses the certificate's loss grid. The epsilon
    of the counts of the labels is added to every line.
    """
    lines = compare(plan.event(), plan.releases, plan.delta, interval=plan.certificate.loss_interval or None)
    return tuple(replace(line, result=_with_counts(line.result, plan.counts_epsilon)) for line in lines)


def _with_counts(result: Result, counts_epsilon: float) -> Result:
    return result if result.value is None else replace(result, value=_sum(result.value, counts_epsilon))


def replace_one_epsilon(plan: PrivacyPlan) -> float:
    """Return the certified epsilon of the same run, at the same delta, if neighbours differ in the value of one row.

    Accounts of records use this adjacency (`core.accounting.events`).
    """
    event = plan.event(PlanAdjacency.REPLACE_ONE)
    return _sum(certified_epsilon(((event, plan.releases),), plan.delta), 2 * plan.counts_epsilon)


def _sum(epsilon: float, counts_epsilon: float) -> float:
    """The sum, rounded up; exactly `epsilon` where nothing is counted."""
    return math.nextafter(epsilon + counts_epsilon, math.inf) if counts_epsilon else epsilon


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


MECHANISM = "dp_sgd"


@dataclass(frozen=True)
class TrainingBudget:
    """A fixed plan and its charge: (epsilon, delta) for replacing one row, epsilon rounded up."""

    plan: PrivacyPlan
    epsilon_nano: int
    delta_femto: int

    @property
    def event(self) -> PrivacyEvent:
        """The whole run as one event. It does not depend on any row.

        The event has only an (epsilon, delta), so it composes by summation. No single Gaussian release represents a run
        of subsampled ones in every accountant.
        """
        return PrivacyEvent(
            mechanism=MECHANISM,
            kind="approximate",
            unit=Unit.RECORD,
            adjacency=Adjacency.REPLACE_ONE,
            guarantee=Guarantee.APPROX_DP,
            epsilon_nano=self.epsilon_nano,
            delta_femto=self.delta_femto,
        )

    def stored(self) -> dict[str, Any]:
        """Return the form that a job stores, so that the run uses exactly the plan that is charged."""
        return asdict(self)


def training_budget(
    *,
    epsilon: float,
    delta: float,
    rows: int,
    batch: int,
    steps: int,
    sampling: str = Sampling.POISSON,
    counted: bool = False,
) -> TrainingBudget:
    """Return the plan of least noise that is certified (epsilon, delta)-DP under add-remove, and its cost.

    Delta is rounded down to ledger units before calibration. Takes up to some seconds, so do not call it on an event
    loop.

    Raises: InvalidInput for a delta that is not a number; OutOfRange as `plan_training`, and for a plan whose cost
    exceeds what a ledger counts.
    """
    try:
        delta_femto = limit_femto(delta)
    except ValueError:
        raise InvalidInput("Delta must be a number between 0 and 1.", field="delta") from None
    plan = plan_training(
        epsilon=epsilon,
        delta=delta_of(delta_femto),
        rows=rows,
        batch=batch,
        steps=steps,
        sampling=Sampling(sampling),
        counted=counted,
    )
    replaced = replace_one_epsilon(plan)
    if not math.isfinite(replaced) or replaced > EPSILON_MAX:
        raise OutOfRange("the cost of this plan for replacing one row cannot be certified", field="epsilon")
    return TrainingBudget(plan, cost_nano(replaced), delta_femto)


def budget_of(stored: Mapping[str, Any]) -> TrainingBudget:
    """Restore what `TrainingBudget.stored` returned."""
    plan = dict(stored["plan"])
    certificate = Certificate(**plan.pop("certificate"))
    sampling = Sampling(plan.pop("sampling"))
    found = PrivacyPlan(**plan, certificate=certificate, sampling=sampling)
    return TrainingBudget(found, stored["epsilon_nano"], stored["delta_femto"])

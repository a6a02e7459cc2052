"""The cost of a private fine-tuning on the record account: one event for the whole run, from its plan alone.

The account counts releases for neighbours in which one record has another value. Therefore the charge is the certified
epsilon of the run under replace-one. That under add-remove is lower (docs/adr/0018-private-training.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from core.accounting.answers import Certificate
from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import EPSILON_MAX, cost_nano, delta_of, limit_femto
from core.errors import InvalidInput, OutOfRange
from core.finetune.plan import PrivacyPlan, Sampling, plan_training, replace_one_epsilon

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
    *, epsilon: float, delta: float, rows: int, batch: int, steps: int, sampling: str = Sampling.POISSON
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

"""What a private fine-tuning costs on the record account: one event for the whole run, from its plan alone.

The account counts releases for neighbours in which one record has another value. So what is charged is the certified
epsilon of the run under replace-one, not that of add-remove, which is lower (docs/adr/0018-what-a-training-costs.md).
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
    """A frozen plan, and what it is charged as: (epsilon, delta) for replacing one row, epsilon rounded up."""

    plan: PrivacyPlan
    epsilon_nano: int
    delta_femto: int

    @property
    def event(self) -> PrivacyEvent:
        """The whole run as one event; it looks at no row.

        An (epsilon, delta) of its own and nothing else: it is added up. No Gaussian release stands for a run of
        subsampled ones in every accountant.
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
        """As a job keeps it: the run that is charged is the run that is made."""
        return asdict(self)


def training_budget(
    *, epsilon: float, delta: float, rows: int, batch: int, steps: int, sampling: str = Sampling.POISSON
) -> TrainingBudget:
    """The plan of least noise that is certified (epsilon, delta)-DP under add-remove, and its cost.

    Delta is rounded down to ledger units before the noise is found. Takes up to some seconds, so not on an event loop.

    Raises: InvalidInput for a delta that is no number; OutOfRange as `plan_training`, and for a plan whose cost is
    beyond what a ledger counts.
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
        raise OutOfRange("for replacing one row nothing is certified of this plan", field="epsilon")
    return TrainingBudget(plan, cost_nano(replaced), delta_femto)


def budget_of(stored: Mapping[str, Any]) -> TrainingBudget:
    """What `TrainingBudget.stored` gave."""
    plan = dict(stored["plan"])
    certificate = Certificate(**plan.pop("certificate"))
    sampling = Sampling(plan.pop("sampling", Sampling.POISSON))  # jobs from before there was a choice have none
    found = PrivacyPlan(**plan, certificate=certificate, sampling=sampling)
    return TrainingBudget(found, stored["epsilon_nano"], stored["delta_femto"])

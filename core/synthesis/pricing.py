"""The cost of one synthesis: a single Gaussian event on the record account, from (epsilon, delta) alone."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from core.accounting.calibrate import calibrate_noise
from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import delta_of, epsilon_of, limit_femto, limit_nano
from core.errors import InvalidInput


@dataclass(frozen=True)
class RecordBudget:
    """(epsilon, delta) of one release for replacing one row, and the noise that provides it.

    `noise_multiplier`: standard deviation over l2 sensitivity, by the analytic calibration.
    """

    epsilon_nano: int
    delta_femto: int
    noise_multiplier: float

    def event(self, mechanism: str) -> PrivacyEvent:
        """Return the one event of a release by `mechanism`. It does not depend on any row."""
        return PrivacyEvent(
            mechanism=mechanism,
            kind="gaussian",
            unit=Unit.RECORD,
            adjacency=Adjacency.REPLACE_ONE,
            guarantee=Guarantee.APPROX_DP,
            epsilon_nano=self.epsilon_nano,
            delta_femto=self.delta_femto,
            noise_multiplier=self.noise_multiplier,
        )


def record_budget(epsilon: float | int | str | Decimal, delta: float | int | str | Decimal) -> RecordBudget:
    """Return the budget of one release. Both numbers are rounded down to ledger units before calibration.

    Raises: InvalidInput, with its `field`, for a value that is not a number; OutOfRange if calibration is impossible.
    """
    try:
        epsilon_nano = limit_nano(epsilon)
    except ValueError:
        raise InvalidInput("Epsilon must be a positive number.", field="epsilon") from None
    try:
        delta_femto = limit_femto(delta)
    except ValueError:
        raise InvalidInput("Delta must be a number between 0 and 1.", field="delta") from None
    found = calibrate_noise(epsilon_of(epsilon_nano), delta_of(delta_femto), sampling_rate=1.0, steps=1)
    return RecordBudget(epsilon_nano, delta_femto, found.noise_multiplier)

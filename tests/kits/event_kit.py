"""Events of a release, for tests of what they cost."""

from core.accounting.events import ACCOUNT_ADJACENCY, Guarantee, PrivacyEvent, Unit
from core.amounts import NANO


def event(
    kind: str, epsilon: float = 0, *, delta_femto: int = 0, noise: float | None = None, unit: Unit = Unit.SENTENCE
) -> PrivacyEvent:
    return PrivacyEvent(
        mechanism="test-mechanism", kind=kind, unit=unit, adjacency=ACCOUNT_ADJACENCY[unit],
        guarantee=Guarantee.APPROX_DP, epsilon_nano=round(epsilon * NANO), delta_femto=delta_femto,
        noise_multiplier=noise,
    )  # fmt: skip

"""Opening a tenant: from one epsilon and a few exceptions to a limit for every unit. Shared by command and API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from core.accounting.events import Unit
from core.amounts import limit_femto, limit_nano
from core.errors import Amount, InvalidInput
from core.ledger.keystore import KeyStore
from core.ledger.ledger import Ledger

Number = float | int | str | Decimal


@dataclass(frozen=True)
class TenantPlan:
    """What to open. `limits` replace the tenant's (epsilon, delta) for single units."""

    name: str
    epsilon: Number
    delta: Number = 0
    limits: Mapping[Unit, tuple[Number, Number]] | None = None
    subject_epsilon: Number | None = None


def limit(epsilon: Number, delta: Number) -> Amount:
    """A limit in ledger units, rounded down. Raises InvalidInput."""
    try:
        found = Amount(limit_nano(epsilon), limit_femto(delta))
    except ValueError:
        raise InvalidInput("epsilon is between 0 and 4000000, delta between 0 and 1", field="epsilon") from None
    if found.epsilon_nano == 0:
        raise InvalidInput("a limit is at least one nano-epsilon", field="epsilon")
    return found


async def open_tenant(ledger: Ledger, keys: KeyStore, plan: TenantPlan) -> str:
    """Open the tenant with one account a unit and return its first API key, shown this once.

    Raises:
        InvalidInput, TenantExists, LedgerUnavailable.
    """
    overrides = plan.limits or {}
    limits = {unit: limit(*overrides.get(unit, (plan.epsilon, plan.delta))) for unit in Unit}
    subject_limits = None
    if plan.subject_epsilon is not None:
        subject_limits = {unit: limit(plan.subject_epsilon, plan.delta) for unit in Unit}
    await ledger.open_tenant(plan.name, limits=limits, subject_limits=subject_limits)
    return await keys.create(plan.name)

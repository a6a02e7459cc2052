"""What a release debits: one row an account, in the shape that reserve.lua reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.accounting.events import PrivacyEvent, Unit
from core.accounting.filters import FILTER_ORDERS, cost_of
from core.accounting.history import moments_of
from core.amounts import EPSILON_MAX, FEMTO, NANO
from core.errors import InvalidInput
from core.ledger.keys import MasterKey
from core.ledger.records import Charge, plan_signature
from core.ledger.vectors import LARGEST, pack

CHARGES_MAX = 4096
SUBJECT_LENGTH_MAX = 256
MIXED = "mixed"


@dataclass
class _Debit:
    """The sum of what a release costs one account, at all orders of the menu."""

    count: int = 0
    epsilon: int = 0
    delta: int = 0
    square: int = 0
    no_epsilon: int = 0
    no_square: int = 0
    no_rho: int = 0
    rho: list[int] = field(default_factory=lambda: [0] * len(FILTER_ORDERS))
    moments: list[float] | None = None
    plan: str = ""
    pure_epsilon: str = ""

    def add(self, event: PrivacyEvent, times: int) -> None:
        cost = cost_of(event)
        moments = moments_of(event)
        pure = str(event.epsilon_nano) if cost.square_nano is not None else MIXED
        if self.count == 0:
            self.plan, self.pure_epsilon = plan_signature(event), pure
            self.moments = None if moments is None else [times * value for value in moments]
        else:
            self.plan = self.plan if self.plan == plan_signature(event) else MIXED
            self.pure_epsilon = self.pure_epsilon if self.pure_epsilon == pure else MIXED
            if self.moments is not None and moments is not None:
                self.moments = [total + times * value for total, value in zip(self.moments, moments, strict=True)]
            else:
                self.moments = None
        self.count += times
        self.delta += times * cost.delta_femto
        if cost.epsilon_nano is None:
            self.no_epsilon += times
        else:
            self.epsilon += times * cost.epsilon_nano
        if cost.square_nano is None:
            self.no_square += times
        else:
            self.square += times * cost.square_nano
        if cost.rho_nano is None:
            self.no_rho += times
        else:
            self.rho = [total + times * rho for total, rho in zip(self.rho, cost.rho_nano, strict=True)]

    def row(self, unit: Unit, subject_hash: str) -> list[str]:
        """Sums that no counter can hold become releases that their arm cannot price, which closes it."""
        square, no_square, rho, no_rho = self.square, self.no_square, self.rho, self.no_rho
        if square > LARGEST:
            square, no_square = 0, self.count
        if max(rho) > LARGEST:
            rho, no_rho = [0] * len(rho), self.count
        counts = (self.count, self.epsilon, self.delta, square, self.no_epsilon, no_square, no_rho)
        moments = "none" if self.moments is None else " ".join(f"{value:.17g}" for value in self.moments)
        return [unit.value, subject_hash, self.plan, pack(counts), pack(rho), moments, self.pure_epsilon]


def debit_args(tenant: str, charges: Sequence[Charge], master_key: MasterKey) -> dict[str, object]:
    """The arguments `debits`, `orders` and `subjects` of reserve.lua: what all charges together debit each account.

    All charges compose by sum, an event also in the finer units. Where charges name subjects, the subjects' rows
    come first and rows without a subject, the sums over all of them, last.

    Raises InvalidInput for no charge, too many, an empty or overlong subject, and a sum that no account can hold.
    """
    if not 0 < len(charges) <= CHARGES_MAX:
        raise InvalidInput(f"A release has 1 to {CHARGES_MAX} charges.")
    named = [charge.subject for charge in charges if charge.subject is not None]
    if not all(0 < len(subject) <= SUBJECT_LENGTH_MAX for subject in named):
        raise InvalidInput(f"A subject has 1 to {SUBJECT_LENGTH_MAX} characters.", field="subject")
    subjects: dict[tuple[Unit, str], _Debit] = {}
    totals: dict[tuple[Unit, str], _Debit] = {}
    for charge, times in Counter(charges).items():
        subject_hash = master_key.subject_hash(tenant, charge.subject) if charge.subject is not None else ""
        for unit in charge.event.debited_units:
            totals.setdefault((unit, ""), _Debit()).add(charge.event, times)
            if subject_hash:
                subjects.setdefault((unit, subject_hash), _Debit()).add(charge.event, times)
    if any(total.epsilon > EPSILON_MAX * NANO or total.delta > FEMTO for total in totals.values()):
        raise InvalidInput("The cost of this release is larger than any limit can be.")
    return {
        "debits": [debit.row(*at) for at, debit in (*subjects.items(), *totals.items())],
        "orders": FILTER_ORDERS,
        "subjects": "none" if not named else "all" if len(named) == len(charges) else "some",
    }

"""What a release debits: one row an account, in the shape that reserve.lua reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import orjson

from core.accounting.events import PrivacyEvent, Unit
from core.accounting.filters import Sums, cost_of
from core.accounting.history import moments_of
from core.amounts import EPSILON_MAX, FEMTO, NANO
from core.errors import InvalidInput
from core.ledger.keys import MasterKey
from core.ledger.records import Charge, plan_signature
from core.ledger.vectors import COUNT, DELTA, EPSILON, FIXED, LARGEST, NO_RHO, NO_SQUARE, SQUARE, Vector, vector_of

CHARGES_MAX = 4096
SUBJECT_LENGTH_MAX = 256
MIXED_PLAN = "mixed"
MIXED_EPSILON = 0

Account = tuple[Unit, str]  # the subject's hash, "" for the tenant's own
Orders = tuple[str, ...]


@lru_cache(maxsize=4096)
def _cost(event: PrivacyEvent, orders: Orders) -> Vector:
    return vector_of(Sums.of(cost_of(event), orders))


@dataclass
class _Debit:
    """What a release costs one account: its events and how often each is run."""

    events: Counter[PrivacyEvent] = field(default_factory=Counter)

    def vector(self, orders: Orders) -> list[int]:
        """Sums that no counter can hold become releases that their arm cannot price, which closes it."""
        total = [0] * (FIXED + len(orders))
        for event, times in self.events.items():
            total = [have + times * more for have, more in zip(total, _cost(event, orders), strict=True)]
        if total[SQUARE] > LARGEST:
            total[SQUARE], total[NO_SQUARE] = 0, total[COUNT]
        if any(rho > LARGEST for rho in total[FIXED:]):
            total[FIXED:], total[NO_RHO] = [0] * len(orders), total[COUNT]
        return total

    @property
    def plan(self) -> str:
        """The signature of the plan that admits it."""
        signatures = {plan_signature(event) for event in self.events}
        return signatures.pop() if len(signatures) == 1 else MIXED_PLAN

    @property
    def loss(self) -> tuple[Sequence[float], Sequence[float], int]:
        """The cumulants of the privacy loss, of X and of Y, and the pure epsilon of every release if it is one."""
        x, y = [0.0] * 5, [0.0] * 5
        for event, times in self.events.items():
            moments = moments_of(event)
            if moments is None:
                x, y = [], []
                break
            x = [have + times * more for have, more in zip(x, moments[:5], strict=True)]
            y = [have + times * more for have, more in zip(y, moments[5:], strict=True)]
        epsilons = {
            event.epsilon_nano if cost_of(event).square_nano is not None else MIXED_EPSILON for event in self.events
        }
        return x, y, epsilons.pop() if len(epsilons) == 1 else MIXED_EPSILON


class Debits:
    """The debits of a release: those of the subjects first, then the sums over all subjects.

    All charges compose by sum, an event also in the finer units.
    Raises InvalidInput for no charge, too many, an empty or overlong subject, and a sum that no account can hold.
    """

    def __init__(self, tenant: str, charges: Sequence[Charge], master_key: MasterKey) -> None:
        if not 0 < len(charges) <= CHARGES_MAX:
            raise InvalidInput(f"A release has 1 to {CHARGES_MAX} charges.")
        named = [charge.subject for charge in charges if charge.subject is not None]
        if not all(0 < len(subject) <= SUBJECT_LENGTH_MAX for subject in named):
            raise InvalidInput(f"A subject has 1 to {SUBJECT_LENGTH_MAX} characters.", field="subject")
        self.subjects = "none" if not named else "all" if len(named) == len(charges) else "some"
        subjects: dict[Account, _Debit] = {}
        totals: dict[Account, _Debit] = {}
        for charge, times in Counter(charges).items():
            subject = master_key.subject_hash(tenant, charge.subject) if charge.subject is not None else ""
            for unit in charge.event.debited_units:
                totals.setdefault((unit, ""), _Debit()).events[charge.event] += times
                if subject:
                    subjects.setdefault((unit, subject), _Debit()).events[charge.event] += times
        for debit in totals.values():
            vector = debit.vector(())
            if vector[EPSILON] > EPSILON_MAX * NANO or vector[DELTA] > FEMTO:
                raise InvalidInput("The cost of this release is larger than any limit can be.")
        self._rows = subjects | totals

    @property
    def accounts(self) -> tuple[Account, ...]:
        return tuple(self._rows)

    def args(self, orders: Mapping[Account, Orders]) -> dict[str, object]:
        """The arguments `accounts`, `subjects` and `losses` of reserve.lua."""
        return {
            "accounts": [[" ".join(orders[account]), debit.plan] for account, debit in self._rows.items()],
            "subjects": self.subjects,
            "losses": orjson.dumps([debit.loss for debit in self._rows.values()]).decode(),
        }

    def amounts(self, orders: Mapping[Account, Orders]) -> bytes:
        """The rows that the script holds and that the journal keeps."""
        return orjson.dumps(
            [
                [unit.value, subject, debit.vector(orders[unit, subject])]
                for (unit, subject), debit in self._rows.items()
            ]
        )

"""The debits of a release: one row for each account, in the format that reserve.lua reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

import orjson

from core.accounting.events import CUMULANTS, PrivacyEvent, Unit, moments_of, pure_epsilon_nano
from core.accounting.filters import Sums, cost_of
from core.amounts import EPSILON_MAX, FEMTO, NANO
from core.errors import InvalidInput
from core.ledger.counters import (
    COUNT,
    DELTA,
    EPSILON,
    FIXED,
    LARGEST,
    NO_EPSILON,
    NO_RHO,
    NO_SQUARE,
    SQUARE,
    Vector,
    vector_of,
)
from core.ledger.records import Charge, plan_signature, worst_signature
from core.master_key import MasterKey

CHARGES_MAX = 4096
SUBJECT_LENGTH_MAX = 256
MIXED_PLAN = "mixed"
MIXED_EPSILON = 0

Account = tuple[Unit, str]  # the subject's hash, "" for the tenant's own account
Orders = tuple[str, ...]


Events = tuple[tuple[PrivacyEvent, int], ...]  # each event with its number of releases


@lru_cache(maxsize=4096)
def _vector(events: Events, orders: Orders, headroom: Vector | None = None) -> Vector:
    """Return the sum of the events' costs, for an account whose counters can grow by at most `headroom`.

    If a sum of epsilon, of squares or of Renyi costs does not fit, its releases count as unpriced in that arm, which
    closes the arm. A sum is never truncated. The other arms are unaffected.
    """
    total = [0] * (FIXED + len(orders))
    for event, times in events:
        cost = vector_of(Sums.of(cost_of(event), orders))
        total = [have + times * more for have, more in zip(total, cost, strict=True)]
    headroom = headroom or (LARGEST,) * len(total)
    if total[EPSILON] > headroom[EPSILON]:
        total[EPSILON], total[DELTA], total[NO_EPSILON] = 0, 0, total[COUNT]
    if total[SQUARE] > headroom[SQUARE]:
        total[SQUARE], total[NO_SQUARE] = 0, total[COUNT]
    if any(rho > left for rho, left in zip(total[FIXED:], headroom[FIXED:], strict=True)):
        total[FIXED:], total[NO_RHO] = [0] * len(orders), total[COUNT]
    return tuple(total)


@lru_cache(maxsize=4096)
def _plans(events: Events) -> tuple[str, str]:
    """Return the signatures of the two plans that admit the events: their own, and that of the worst noise."""
    own, worst = ({sign(event) for event, _ in events} for sign in (plan_signature, worst_signature))
    return own.pop() if len(own) == 1 else MIXED_PLAN, worst.pop() if len(worst) == 1 else MIXED_PLAN


@lru_cache(maxsize=4096)
def _loss(events: Events) -> tuple[list[float], list[float], int]:
    """Return the cumulants of the privacy loss X and of Y, and the pure epsilon that all releases share, if any."""
    total = [0.0] * (2 * CUMULANTS)
    for event, times in events:
        moments = moments_of(event)
        if moments is None:
            total = []
            break
        total = [have + times * more for have, more in zip(total, moments, strict=True)]
    epsilons = {pure_epsilon_nano(event) or MIXED_EPSILON for event, _ in events}
    pure = epsilons.pop() if len(epsilons) == 1 else MIXED_EPSILON
    return total[:CUMULANTS], total[CUMULANTS:], pure


class Debits:
    """The debits of a release: first those of the subjects, then the sums over all subjects.

    All charges compose by summation. An event is also debited in the finer units.
    Raises InvalidInput for no charge, for too many charges, for an empty or overlong subject, and for a sum or a number
    of releases that no account can hold.
    """

    def __init__(self, tenant: str, charges: Sequence[Charge], master_key: MasterKey) -> None:
        if not 0 < len(charges) <= CHARGES_MAX:
            raise InvalidInput(f"A release has 1 to {CHARGES_MAX} charges.")
        named = [charge.subject for charge in charges if charge.subject is not None]
        if not all(0 < len(subject) <= SUBJECT_LENGTH_MAX for subject in named):
            raise InvalidInput(f"A subject has 1 to {SUBJECT_LENGTH_MAX} characters.", field="subject")
        self.subjects = "none" if not named else "all" if len(named) == len(charges) else "some"
        by_subject: dict[Account, Counter[PrivacyEvent]] = defaultdict(Counter)
        totals: dict[Account, Counter[PrivacyEvent]] = defaultdict(Counter)
        for charge, repeated in Counter(charges).items():
            times = repeated * charge.times
            subject = master_key.subject_hash(tenant, charge.subject) if charge.subject is not None else ""
            for unit in charge.event.debited_units:
                totals[unit, ""][charge.event] += times
                if subject:
                    by_subject[unit, subject][charge.event] += times
        self._rows = {account: tuple(events.items()) for account, events in (by_subject | totals).items()}
        for account in totals:
            epsilon = sum(event.epsilon_nano * times for event, times in self._rows[account])
            delta = sum(event.delta_femto * times for event, times in self._rows[account])
            count = sum(times for _, times in self._rows[account])
            if epsilon > EPSILON_MAX * NANO or delta > FEMTO or count > LARGEST:
                raise InvalidInput("The cost of this release is larger than any limit can be.")

    @property
    def accounts(self) -> tuple[Account, ...]:
        return tuple(self._rows)

    @property
    def units(self) -> frozenset[Unit]:
        """The units whose accounts the release debits."""
        return frozenset(unit for unit, _ in self._rows)

    def cost(self, account: Account, orders: Orders) -> Vector:
        """Return what the release adds to a debited account with these orders."""
        return _vector(self._rows[account], orders)

    def plans(self, account: Account) -> tuple[str, str]:
        """Return the signatures of the plans that admit what the release debits from the account."""
        return _plans(self._rows[account])

    def args(self, orders: Mapping[Account, Orders]) -> dict[str, object]:
        """Return the arguments `accounts`, `subjects` and `losses` of reserve.lua."""
        return {
            "accounts": [[" ".join(orders[account]), *_plans(events)] for account, events in self._rows.items()],
            "subjects": self.subjects,
            "losses": [_loss(events) for events in self._rows.values()],
        }

    def amounts(
        self, orders: Mapping[Account, Orders], headroom: Sequence[Sequence[int]] | None = None
    ) -> tuple[bytes, bytes]:
        """Return the rows of the tenant's own accounts, and those of subjects' accounts (b"" for none).

        The script holds them and the journal stores them. `headroom`: how far each counter can grow.
        """
        headrooms: Sequence[Sequence[int] | None] = headroom or [None] * len(self._rows)
        rows = [
            [account[0].value, account[1], _vector(events, orders[account], None if left is None else tuple(left))]
            for (account, events), left in zip(self._rows.items(), headrooms, strict=True)
        ]
        subjects = [row for row in rows if row[1]]
        return orjson.dumps(rows[len(subjects) :]), orjson.dumps(subjects) if subjects else b""

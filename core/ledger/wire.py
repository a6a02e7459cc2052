"""Between the records and what the scripts read and write: integers are decimal strings, absent texts are ""."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from core.accounting.events import ACCOUNT_ADJACENCY, Adjacency, Unit
from core.amounts import EPSILON_MAX, FEMTO, NANO
from core.errors import Amount, InvalidInput
from core.ledger.keys import MasterKey
from core.ledger.names import account_id, check_label
from core.ledger.records import AccountState, Charge, EntryAmount, JournalEntry

CHARGES_MAX = 4096
SUBJECT_LENGTH_MAX = 256
EPSILON_NANO_MAX = EPSILON_MAX * NANO


def limit_rows(limits: Mapping[Unit, Amount], *, adjacency: bool) -> list[list[str]]:
    """The limits of all units, in the units' order.

    Raises InvalidInput when a unit has none or one is outside [0, EPSILON_MAX] x [0, 1].
    """
    rows = []
    for unit in Unit:
        limit = limits.get(unit)
        if limit is None:
            raise InvalidInput(f"The unit {unit.value} has no limit.", field="limits")
        if not (0 <= limit.epsilon_nano <= EPSILON_NANO_MAX and 0 <= limit.delta_femto <= FEMTO):
            raise InvalidInput(f"The limit of the unit {unit.value} is out of range.", field="limits")
        kind = [ACCOUNT_ADJACENCY[unit].value] if adjacency else []
        rows.append([unit.value, *kind, str(limit.epsilon_nano), str(limit.delta_femto)])
    return rows


def debit_rows(tenant: str, charges: Sequence[Charge], master_key: MasterKey) -> list[list[str]]:
    """One row an account: what all charges together debit it. All charges compose by sum.

    Raises InvalidInput for no charge, too many, an empty or overlong subject, and a sum that no account can hold.
    """
    if not 0 < len(charges) <= CHARGES_MAX:
        raise InvalidInput(f"A release has 1 to {CHARGES_MAX} charges.")
    subjects = {charge.subject for charge in charges}
    hashes: dict[str | None, str] = {None: ""}
    for subject in subjects - {None}:
        if subject is not None:
            if not 0 < len(subject) <= SUBJECT_LENGTH_MAX:
                raise InvalidInput(f"A subject has 1 to {SUBJECT_LENGTH_MAX} characters.", field="subject")
            hashes[subject] = master_key.subject_hash(tenant, subject)
    sums: dict[tuple[Unit, str], Amount] = {}
    for charge in charges:
        event = charge.event
        for unit in event.debited_units:
            at = (unit, hashes[charge.subject])
            before = sums.get(at, Amount(0))
            sums[at] = Amount(before.epsilon_nano + event.epsilon_nano, before.delta_femto + event.delta_femto)
    for unit in Unit:  # the quota over all subjects is the largest sum
        epsilon = sum(amount.epsilon_nano for at, amount in sums.items() if at[0] is unit)
        delta = sum(amount.delta_femto for at, amount in sums.items() if at[0] is unit)
        if epsilon > EPSILON_NANO_MAX or delta > FEMTO:
            raise InvalidInput("The cost of this release is larger than any limit can be.")
    return [
        [unit.value, subject, str(amount.epsilon_nano), str(amount.delta_femto)]
        for (unit, subject), amount in sums.items()
    ]


def mechanism_label(charges: Sequence[Charge]) -> str:
    """The mechanisms of a release, for the journal: `laplace`, `laplace+exponential`."""
    return check_label("+".join(dict.fromkeys(charge.event.mechanism for charge in charges)))


def account_state(tenant: str, row: Sequence[str]) -> AccountState:
    """The state that `state_of` in common.lua wrote."""
    unit, subject = Unit(row[0]), row[2] or None
    numbers = [int(number) for number in row[3:9]]
    return AccountState(
        account=account_id(tenant, unit, subject),
        unit=unit,
        adjacency=Adjacency(row[1]),
        subject_hash=subject,
        limit=Amount(*numbers[0:2]),
        committed=Amount(*numbers[2:4]),
        reserved=Amount(*numbers[4:6]),
    )


def account_states(tenant: str, rows: Sequence[Sequence[str]]) -> tuple[AccountState, ...]:
    return tuple(account_state(tenant, row) for row in rows)


def amount(pair: Sequence[str]) -> Amount:
    return Amount(int(pair[0]), int(pair[1]))


def journal_entry(tenant: str, raw: Sequence[Any]) -> JournalEntry:
    """One entry as XRANGE replies it: an id and its fields."""
    entry_id, fields = raw
    texts = {key.decode(): value.decode() for key, value in fields.items()}
    rows = orjson.loads(texts["amounts"])
    return JournalEntry(
        seq=int(entry_id.partition(b"-")[0]),
        at_ms=int(texts["at_ms"]),
        transition=texts["transition"],
        release_id=texts["release"] or None,
        mechanism=texts["mechanism"] or None,
        reason=texts["reason"] or None,
        amounts=tuple(
            EntryAmount(
                account=account_id(tenant, Unit(row[0]), row[1] or None),
                unit=Unit(row[0]),
                subject_hash=row[1] or None,
                amount=amount(row[2:4]),
            )
            for row in rows
        ),
    )

"""Conversions between the records and the scripts' formats. Absent texts are ""."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from core.accounting.events import ACCOUNT_ADJACENCY, Adjacency, Unit
from core.accounting.filters import Division, divisions
from core.amounts import EPSILON_MAX, FEMTO, NANO, Amount
from core.errors import InvalidInput
from core.ledger.counters import LARGEST, filter_limit, plan_limit
from core.ledger.records import AccountState, Charge, CurrentLimit, EntryAmount, History, JournalEntry, Limit
from core.redis.names import account_id, check_label

EPSILON_NANO_MAX = EPSILON_MAX * NANO
_REPEATED_MAX, _REPEATED_BYTES_MAX = 256, 2048  # texts of amounts: equal requests debit equal ones


def account_terms(limits: Mapping[Unit, Limit]) -> list[list[Any]]:
    """Return the terms of one account for each unit, in the order of the units. The terms never change.

    Raises InvalidInput if a unit has no limit or its limit is outside [0, EPSILON_MAX] x [0, 1].
    """
    rows = []
    for unit in Unit:
        limit = limits.get(unit)
        if limit is None:
            raise InvalidInput(f"The unit {unit.value} has no limit.", field="limits")
        if not (
            0 <= limit.epsilon_nano <= EPSILON_NANO_MAX
            and 0 <= (limit.basic_delta_femto or 0) <= limit.delta_femto <= FEMTO
        ):
            raise InvalidInput(f"The limit of the unit {unit.value} is out of range.", field="limits")
        adjacency = ACCOUNT_ADJACENCY[unit]
        offered = divisions(
            limit.epsilon_nano, limit.delta_femto, adjacency=adjacency, basic_delta_femto=limit.basic_delta_femto
        )
        orders = offered[Division.PURE].orders
        choice = [filter_limit(offered[division]) for division in Division]
        vector = choice[0]
        if limit.plan is not None:
            if adjacency is Adjacency.METRIC:
                raise InvalidInput(
                    "An account under metric adjacency uses basic composition and cannot have a plan.", field="limits"
                )
            if not 0 < limit.plan.count <= LARGEST:
                raise InvalidInput(f"The plan of the unit {unit.value} has no releases.", field="limits")
            vector = plan_limit(limit.plan.count, orders)
        settled = limit.plan is not None or all(vector == other for other in choice)
        rows.append(
            [
                unit.value,
                "",
                adjacency.value,
                f"{limit.epsilon_nano} {limit.delta_femto}",
                " ".join(orders),
                limit.plan.signature if limit.plan else "",
                vector,
                [] if settled else choice,
            ]
        )
    return rows


def mechanism_label(charges: Sequence[Charge]) -> str:
    """Return the mechanisms of a release for the journal: `laplace`, `laplace+exponential`."""
    return check_label("+".join(dict.fromkeys(charge.event.mechanism for charge in charges)))


def account_state(tenant: str, row: Sequence[Any]) -> AccountState:
    """Parse a state from `state_of` in common.lua. A state from accounts.lua also has divisions and a history."""
    unit, subject, adjacency, guarantee, orders, plan, limit, committed, held, *rest = row
    current, divisions, *history = rest if len(rest) > 1 else [*(rest or [""]), ()]
    return AccountState(
        account=account_id(tenant, Unit(unit), subject or None),
        unit=Unit(unit),
        adjacency=Adjacency(adjacency),
        subject_hash=subject or None,
        limit=Amount(*map(int, guarantee.split())),
        orders=tuple(orders.split()),
        plan_signature=plan,
        limit_vector=tuple(limit),
        committed_vector=tuple(committed),
        held_vector=tuple(held),
        current=_current_limit(*current) if current else None,
        divisions=tuple(map(tuple, divisions)),
        history=_history(*history) if history else None,
    )


def _current_limit(epsilon_nano: str, vector: Sequence[int], divisions: Sequence[Sequence[int]]) -> CurrentLimit:
    return CurrentLimit(int(epsilon_nano), tuple(vector), tuple(map(tuple, divisions)))


def _history(loss_x: Sequence[float], loss_y: Sequence[float], pure_epsilon: str) -> History:
    return History(
        moments=(*loss_x, *loss_y) if loss_x and loss_y else None, pure_epsilon_nano=int(pure_epsilon or 0) or None
    )


def new_subject_state(tenant: str, terms: Sequence[Any], subject: str | None) -> AccountState:
    """Return the account that a subject's first release opens on these terms, as `new_account` in common.lua."""
    unit, _, adjacency, guarantee, orders, plan, limit, divided = terms
    nothing = (0,) * len(limit)
    return account_state(
        tenant, (unit, subject or "", adjacency, guarantee, orders, plan, limit, nothing, nothing, "", divided or ())
    )


def account_states(tenant: str, rows: Sequence[Sequence[Any]]) -> tuple[AccountState, ...]:
    return tuple(account_state(tenant, row) for row in rows)


def journal_entry(tenant: str, raw: Sequence[Any], *, subjects: bool = True) -> JournalEntry:
    """Parse one entry as XRANGE returns it: an id and its fields. `subjects` parses the rows of subjects' accounts."""
    entry_id, fields = raw
    texts = {key.decode(): value.decode() for key, value in fields.items()}
    rows = texts.get("subjects", "")
    has_rows = rows.startswith("[")
    return JournalEntry(
        seq=int(entry_id.partition(b"-")[0]),
        at_ms=int(texts["at_ms"]),
        transition=texts["transition"],
        release_id=texts["release"] or None,
        mechanism=texts["mechanism"] or None,
        reason=texts["reason"] or None,
        amounts=_entry_amounts(tenant, texts["amounts"]),
        subjects=_entry_amounts(tenant, rows) if has_rows and subjects else (),
        subjects_digest=(hashlib.sha256(rows.encode()).hexdigest() if has_rows else rows) or None,
        key_id=texts["key"] or None,
        route=texts["route"] or None,
    )


def subject_amounts(tenant: str, rows: bytes) -> tuple[EntryAmount, ...]:
    """Parse the rows of subjects' accounts in the record of a hold."""
    return _entry_amounts(tenant, rows)


def _entry_amounts(tenant: str, rows: str | bytes) -> tuple[EntryAmount, ...]:
    return _parsed_again(tenant, rows) if len(rows) <= _REPEATED_BYTES_MAX else _parsed_amounts(tenant, rows)


def _parsed_amounts(tenant: str, rows: str | bytes) -> tuple[EntryAmount, ...]:
    return tuple(
        EntryAmount(
            account=account_id(tenant, Unit(row[0]), row[1] or None),
            unit=Unit(row[0]),
            subject_hash=row[1] or None,
            vector=tuple(row[2]),
            divisions=tuple(map(tuple, row[7])) if len(row) > 7 else (),
        )
        for row in orjson.loads(rows)
    )


_parsed_again = lru_cache(_REPEATED_MAX)(_parsed_amounts)

"""The current limit of an account: what the operator lets it spend now, at most the epsilon of its guarantee.

Guarantee: releases must fit both the limit that the account was opened with and the current one. The first never
changes, so the account stays (epsilon, delta)-DP for the epsilon of its opening however often the operator sets the
current limit, also with answers of the account in sight. No smaller epsilon is guaranteed once a current limit was
raised; with one that was set before the first release and never raised, the releases are (current epsilon, delta)-DP,
because its arms are those of a filter with the account's orders and shares of delta.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.accounting.events import ACCOUNT_ADJACENCY
from core.accounting.filters import Division, filter_arms
from core.errors import InvalidInput
from core.ledger.counters import DELTA, Vector, filter_limit
from core.ledger.records import AccountState

MEMBER = "epsilon"


def lowered_limits(state: AccountState, epsilon_nano: int) -> list[Vector]:
    """Return the current limit for each division of the account; none for the epsilon of its guarantee.

    Takes milliseconds and may load scipy. Raises InvalidInput for an account of a subject or with a plan, and for an
    epsilon that is not between 0 and that of the guarantee.
    """
    if state.subject_hash is not None:
        raise InvalidInput("Only the accounts of the tenant itself have a current limit.", field="account")
    if state.plan is not None:
        raise InvalidInput("An account with a plan has no current limit.", field=MEMBER)
    if not 0 <= epsilon_nano <= state.limit.epsilon_nano:
        raise InvalidInput("A current limit is at most the epsilon that the account was opened with.", field=MEMBER)
    if epsilon_nano == state.limit.epsilon_nano:
        return []
    if not state.divisions:
        return [_lowered(state, state.limit_vector, Division.PURE, epsilon_nano)]
    return [
        _lowered(state, limit, division, epsilon_nano)
        for limit, division in zip(state.divisions, Division, strict=True)
    ]


def _lowered(state: AccountState, limit: Sequence[int], division: Division, epsilon_nano: int) -> Vector:
    """The limit of a filter for a smaller epsilon, with the orders and the shares of delta of `limit`."""
    arms = filter_arms(
        epsilon_nano,
        state.limit.delta_femto,
        adjacency=ACCOUNT_ADJACENCY[state.unit],
        basic_delta_femto=limit[DELTA],
        division=division,
        orders_epsilon_nano=state.limit.epsilon_nano,
    )
    if arms.orders != state.orders:
        raise InvalidInput("This account has other orders and cannot have a current limit.", field=MEMBER)
    return tuple(min(pair) for pair in zip(filter_limit(arms), limit, strict=True))

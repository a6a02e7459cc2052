"""How budgets are shown: the same block for an account wherever one appears."""

from __future__ import annotations

from typing import Any

from core.amounts import epsilon_of
from core.ledger.records import AccountState
from service.problems import amount


def account_block(state: AccountState) -> dict[str, Any]:
    """One account. `remaining` is the limit less what is committed and what is held."""
    block: dict[str, Any] = {
        "account": state.account,
        "unit": state.unit.value,
        "adjacency": state.adjacency.value,
    }
    if state.subject_hash is not None:
        block["subject_hash"] = state.subject_hash
    block |= {
        "limit": amount(state.limit),
        "committed": amount(state.committed),
        "reserved": amount(state.reserved),
        "remaining": amount(state.remaining),
        "accountants": [
            {"name": "basic", "epsilon": epsilon_of(state.committed.epsilon_nano), "kind": "bound"},
        ],
    }
    return block

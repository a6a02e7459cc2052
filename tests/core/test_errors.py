"""Errors travel between processes whole."""

from __future__ import annotations

import pickle

import pytest

from core.amounts import Amount
from core.errors import BudgetExhausted, GatewayError, HoldNotOpen, InvalidInput, TaskFailed, WorkerDied


@pytest.mark.parametrize(
    "error",
    [
        BudgetExhausted(account="acme/sentence", requested=Amount(2), remaining=Amount(1)),
        HoldNotOpen(state="spent"),
        InvalidInput("at most 3", field="documents"),
        TaskFailed(reason="ValueError"),
        WorkerDied(),
    ],
)
def test_an_error_survives_pickling(error: GatewayError) -> None:
    again = pickle.loads(pickle.dumps(error))

    assert type(again) is type(error)
    assert again.__dict__ == error.__dict__
    assert str(again) == str(error)

"""Errors travel between processes whole."""

import pickle

from core.amounts import Amount
from core.errors import BudgetExhausted, HoldNotOpen, InvalidInput, RecogniserFailed, TaskFailed, WorkerDied


def test_an_error_survives_pickling() -> None:
    for error in [
        BudgetExhausted(account="acme/sentence", requested=Amount(2), remaining=Amount(1)),
        HoldNotOpen(state="spent"), InvalidInput("at most 3", field="documents"), RecogniserFailed(entity="URL"),
        TaskFailed(reason="ValueError"), WorkerDied(),
    ]:  # fmt: skip
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert again.__dict__ == error.__dict__
        assert str(again) == str(error)

"""`budget_cap`: a local limit on what the calls of a block may charge, checked before anything is sent.

A cap bounds the epsilon of each unit (sentence, token, vector, record) separately: the largest of them is what the
block may have cost any account. The price is that of `POST /budget/estimate` for one document of the same request
without its text, asked once for each kind of request. A reservation whose request charged nothing is given back;
one whose answer was lost counts as spent.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextvars import ContextVar, Token
from types import TracebackType

from privacy_gateway_client.errors import BudgetCapReached

Nano = Mapping[str, int]
_NANO = 1_000_000_000


def nano(epsilon: float) -> int:
    return round(epsilon * _NANO)


class BudgetCap:
    """A context manager. It applies to the calls of its block, in this thread or task and those that the block's own
    calls start. Caps may be nested: each of them bounds the calls inside it. One cap may be entered by several threads
    or tasks, which then share it."""

    def __init__(self, epsilon: float) -> None:
        if not epsilon >= 0:
            raise ValueError("a cap is a number, at least 0")
        self._limit = nano(epsilon)
        self._spent: dict[str, int] = {}
        self._lock = threading.Lock()
        self._tokens: ContextVar[tuple[Token[tuple[BudgetCap, ...]], ...]] = ContextVar("tokens", default=())

    @property
    def spent(self) -> float:
        """The largest epsilon of any unit that was charged or may have been."""
        return max(self._spent.values(), default=0) / _NANO

    @property
    def remaining(self) -> float:
        return (self._limit - max(self._spent.values(), default=0)) / _NANO

    def take(self, costs: Nano) -> None:
        """Count `costs` as spent. Raises BudgetCapReached, and then counts nothing."""
        with self._lock:
            for unit, cost in costs.items():
                left = self._limit - self._spent.get(unit, 0)
                if cost > left:
                    raise BudgetCapReached(unit=unit, requested=cost / _NANO, remaining=left / _NANO)
            for unit, cost in costs.items():
                self._spent[unit] = self._spent.get(unit, 0) + cost

    def give_back(self, costs: Nano) -> None:
        with self._lock:
            for unit, cost in costs.items():
                self._spent[unit] -= cost

    def __enter__(self) -> BudgetCap:
        token = _active.set((*_active.get(), self))
        self._tokens.set((*self._tokens.get(), token))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        *rest, token = self._tokens.get()
        self._tokens.set(tuple(rest))
        _active.reset(token)


_active: ContextVar[tuple[BudgetCap, ...]] = ContextVar("privacy_gateway_client_caps", default=())


def active_caps() -> tuple[BudgetCap, ...]:
    """The caps of the present thread or task, the outermost first."""
    return _active.get()


class Reservation:
    """What a request may charge, taken from every cap."""

    def __init__(self, caps: tuple[BudgetCap, ...], costs: Nano) -> None:
        """Raises BudgetCapReached, and then nothing is taken."""
        self._caps, self._costs = caps, costs
        taken = []
        try:
            for cap in caps:
                cap.take(costs)
                taken.append(cap)
        except BudgetCapReached:
            for cap in taken:
                cap.give_back(costs)
            raise

    def cancel(self) -> None:
        """The request charged nothing."""
        for cap in self._caps:
            cap.give_back(self._costs)

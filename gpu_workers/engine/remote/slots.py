"""The slots of a worker: how many batches it holds, over all gateways.

Guarantee: at most `slots_max` are granted at a time. Gateways that wait get them in turn, whatever number of slots each
asks for. A slot is free again when its batch has ended, or when it was given back or taken back unused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from gpu_workers.engine.remote.load import LoadMeter


class Slots:
    """Used on the event loop only, without locks. No slot is granted until `open`."""

    def __init__(self, slots_max: int, *, on_free: Callable[[], None]) -> None:
        """`on_free` is called when a slot was given back. `load` measures the slots in use and, while slots are
        granted, the requests that wait: a gateway keeps asking a closed worker also without work for it."""
        self.load = LoadMeter()
        self._slots_max = slots_max
        self._on_free = on_free
        self._granted: set[int] = set()
        self._waiting: OrderedDict[str, deque[asyncio.Future[int]]] = OrderedDict()  # the next gateway is the first
        self._last = 0
        self._open = False

    @property
    def granted(self) -> int:
        return len(self._granted)

    @property
    def waiting(self) -> int:
        """The number of requests for a slot that wait. It shows how much work gateways have for this worker."""
        return sum(not asked.done() for own in self._waiting.values() for asked in own)

    def open(self) -> None:
        """Grant slots from now on."""
        self._open = True
        self._grant()

    def close(self) -> None:
        """Grant no slot until `open`. Granted ones remain."""
        self._open = False
        self._measure()

    def ask(self, gateway: str) -> asyncio.Future[int]:
        """Return a future of the number of a slot. Cancel it to stop waiting. A number is never used twice."""
        asked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asked.add_done_callback(lambda _: self._measure())  # also if it is cancelled
        self._waiting.setdefault(gateway, deque()).append(asked)
        self._grant()
        return asked

    def give_back(self, slot: int) -> None:
        """Free a slot. Does nothing for one that is free."""
        self._granted.discard(slot)
        self._grant()
        self._on_free()

    def _grant(self) -> None:
        while self._open and len(self._granted) < self._slots_max and (asked := self._next()) is not None:
            self._last += 1
            self._granted.add(self._last)
            asked.set_result(self._last)
        self._measure()

    def _measure(self) -> None:
        self.load.set(in_use=self.granted, waiting=self.waiting if self._open else 0)

    def _next(self) -> asyncio.Future[int] | None:
        """The next request that still waits."""
        while self._waiting:
            gateway, own = self._waiting.popitem(last=False)
            while own:
                asked = own.popleft()
                if not asked.done():
                    if own:
                        self._waiting[gateway] = own  # behind all others
                    return asked
        return None

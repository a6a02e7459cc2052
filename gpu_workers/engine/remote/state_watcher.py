"""What a server on another machine last reported of itself: a worker server, or a job runner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from grpc import aio

SILENCE_S_MAX = 15.0  # a server reports every two seconds; after this time it counts as away
_RETRY_S = 0.2

State = TypeVar("State")


class StateWatcher(Generic[State]):
    """Reads the states that a server sends, and connects again when it goes away or is silent. `state` is None while
    there is no connection."""

    def __init__(
        self,
        open_call: Callable[[], Any],
        read: Callable[[bytes], State],
        *,
        on_change: Callable[[], None],
        on_loss: Callable[[], None],
    ) -> None:
        """`open_call`: a call whose messages `read` reads; whatever it raises ends the connection. `on_change` is
        called when the state has changed, `on_loss` before that when a connection has ended."""
        self.state: State | None = None
        self._open_call = open_call
        self._read = read
        self._on_change = on_change
        self._on_loss = on_loss
        self._heard_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def reachable(self) -> bool:
        """Whether the server has reported in time."""
        return self.state is not None and time.monotonic() - self._heard_at < SILENCE_S_MAX

    async def _watch(self) -> None:
        while True:
            call = self._open_call()
            with suppress(Exception):
                await self._follow(call)
            call.cancel()
            self._on_loss()
            if self.state is not None:
                self.state = None
                self._on_change()
            await asyncio.sleep(_RETRY_S)

    async def _follow(self, call: Any) -> None:
        while True:
            message = await asyncio.wait_for(call.read(), SILENCE_S_MAX)
            if message is aio.EOF:
                return
            state = self._read(message)
            self._heard_at = time.monotonic()
            if state != self.state:
                self.state = state
                self._on_change()

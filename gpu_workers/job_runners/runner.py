"""A gateway's connection to one job runner: what it last reported, and the places that it grants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from grpc import aio

from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.engine.remote.state_watcher import SILENCE_S_MAX, StateWatcher
from gpu_workers.job_runners.frames import RUN, SERVICE, WATCH, Kind, read
from gpu_workers.job_runners.process import RemoteProcess
from gpu_workers.job_runners.state import RunnerState
from gpu_workers.jobs.messages import JobOrder

ANSWER_S_MAX = 15.0  # to a request for a place


class RemotePlace:
    """A place that a runner has granted: an open call."""

    stays = False

    def __init__(self, runner: Runner, call: Any) -> None:
        self._runner = runner
        self._call = call
        self._started = False

    def start(
        self, order: JobOrder, *, seconds_max: float, on_message: Callable[[Any], None], on_death: Callable[[], None]
    ) -> RemoteProcess:
        if self._started:
            raise RuntimeError("a place elsewhere runs one process")
        self._started = True
        return RemoteProcess(
            self._call,
            self._runner.codec,
            order,
            staging=self._runner.staging,
            bytes_max=self._runner.bytes_max,
            seconds_max=seconds_max,
            on_message=on_message,
            on_death=on_death,
            on_end=self.release,
        )

    def release(self) -> None:
        self._call.cancel()
        self._runner.gave_back(self._call)


class Runner:
    """One job runner. `on_change` is called when its state has changed."""

    def __init__(
        self,
        address: str,
        codec: Codec,
        access: Access,
        *,
        gateway: str,
        staging: Path,
        bytes_max: int,
        on_change: Callable[[], None],
    ) -> None:
        """Raises ValueError or OSError as `Access.channel`."""
        self.address = address
        self.codec = codec
        self.staging = staging
        self.bytes_max = bytes_max
        self.calls: set[Any] = set()  # of places that are granted or asked for
        self._on_change = on_change
        self._left = asyncio.Event()
        self._metadata = access.metadata(gateway=gateway, schema=codec.schema)
        self._channel = access.channel(address)
        self._watcher = StateWatcher(
            lambda: self._channel.unary_stream(f"/{SERVICE}/{WATCH}")(b"", metadata=self._metadata),
            RunnerState.read,
            on_change=lambda: self._on_change(),  # `leave` replaces it
            on_loss=self._cut,
        )

    def start(self) -> None:
        self._watcher.start()

    async def stop(self) -> None:
        """End the connection, and with it every attempt that runs there."""
        self._watcher.stop()
        self._cut()
        await self._channel.close()

    async def leave(self) -> None:
        """Ask for no place any more, and end the connection when the last attempt has ended."""
        self._on_change = self._left.set
        while self.calls and self.reachable:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), SILENCE_S_MAX)
            self._left.clear()
        await self.stop()

    def gave_back(self, call: Any) -> None:
        """The place of this call is given up."""
        self.calls.discard(call)
        self._left.set()

    @property
    def state(self) -> RunnerState | None:
        """What the runner last reported; None while there is no connection."""
        return self._watcher.state

    @property
    def reachable(self) -> bool:
        """Whether the runner has reported in time."""
        return self._watcher.reachable

    async def ask(self) -> RemotePlace | None:
        """A place, or None if the runner grants none now."""
        call = self._channel.stream_stream(f"/{SERVICE}/{RUN}")(metadata=self._metadata)
        self.calls.add(call)
        place = RemotePlace(self, call)
        try:
            message = await asyncio.wait_for(call.read(), ANSWER_S_MAX)
            if message is not aio.EOF and read(message)[0] is Kind.GRANT:
                return place
        except asyncio.CancelledError:
            place.release()
            if _is_cancelled():  # else the call was cut, not its caller
                raise
            return None
        except Exception:  # noqa: S110 - whatever it was, there is no place
            pass
        place.release()
        return None

    def _cut(self) -> None:
        for call in tuple(self.calls):
            call.cancel()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

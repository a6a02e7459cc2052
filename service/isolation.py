"""Work whose cost a tenant decides - parsers, compilers, decoders - in processes apart, with limits of memory and time.

Guarantee: such work stops neither the event loop nor another thread of this process, whatever it reads. A function that
needs more processor time or memory than the limits ends with an error for its caller alone, and the system takes back
what it used. Tenants take turns (`Turns`). One tenant never has all of the processes, and a tenant whose work
took longer than its size lets others expect waits longer for its next turn.

A process is started when it is first needed, kept, and replaced after a limit was reached.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from core.errors import GatewayError, InvalidInput, NotStarted, TaskFailed
from gpu_workers.engine.fairness import Ticket, Turns
from gpu_workers.fork_server import ChildProcess

Result = TypeVar("Result")

MODULE = "service.isolation_process"
PRELOAD = f"{MODULE}:load"  # what a fork server imports before
PROCESSES = 2
IN_LOOP_SIZE_MAX = 4 * 1024
"""Of what is read on the event loop: a parser whose time and memory grow with the square takes a millisecond for it."""
CPU_S_MAX = 10.0
"""The largest permitted document takes two seconds of a busy processor."""
MEMORY_BYTES_MAX = 192 * 1024 * 1024
"""Beside what the process has at its start. The largest permitted document takes half of it."""
WALL_S_MAX = 60.0
"""A process that has no processor for so long ends. Its work has not been cut because of what it read."""
_SIZE_PER_S = 1_000_000  # of ordinary work: a text of so many characters takes about a second


class Reached(StrEnum):
    """A limit that a function has reached."""

    TIME = "time"
    MEMORY = "memory"
    ENDED = "ended"  # one of them: the process has ended without an answer


@dataclass(frozen=True)
class WorkLimits:
    """Limits of one function. `cpu_s`: seconds of a processor. `memory_bytes`: beside what the process has."""

    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True)
class IsolatedAnswer:
    """`result`: that of the function, a `GatewayError`, or the limit that it has reached. `is_last`: the process ends,
    so that the system takes back what it used."""

    result: Any = field(repr=False)
    cpu_s: float
    is_last: bool


LIMITS = WorkLimits(CPU_S_MAX, MEMORY_BYTES_MAX)

_REFUSALS = {
    Reached.TIME: f"This takes more than {CPU_S_MAX:.0f} seconds to read. Send less of it, or simpler text.",
    Reached.MEMORY: f"This takes more than {MEMORY_BYTES_MAX >> 20} MiB to read. Send less of it, or simpler text.",
    Reached.ENDED: "This takes too much time or memory to read. Send less of it, or simpler text.",
}


class Isolation:
    """Runs functions of modules in processes apart. Used on the event loop only, without locks."""

    def __init__(self, *, processes: int = PROCESSES, limits: WorkLimits = LIMITS) -> None:
        self._limits = limits
        self._turns = Turns(processes, tenant_places=max(1, processes - 1))
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._closed = False

    async def run(
        self,
        tenant: str,
        size: int,
        function: Callable[..., Result],
        *arguments: Any,
        field: str,
        in_loop_size_max: int = IN_LOOP_SIZE_MAX,
    ) -> Result:
        """Return the result of `function`, which is a function of a module. It, its arguments and its result are
        pickled. `size`: the characters or bytes that it reads. One of at most `in_loop_size_max` is called at once.
        `field`: the member of the request that is read.

        Raises:
            InvalidInput: the function needs more time or memory than a document may need.
            NotStarted: the process ended for another reason, or the gateway is stopping.
            GatewayError: that of the function.
            RuntimeError: the function raised another error. The message has its type and no text.
        """
        if size <= in_loop_size_max:
            return function(*arguments)
        ticket = await self._turns.wait(tenant, size)
        if self._closed:
            ticket.close()
            raise NotStarted
        try:
            process = self._idle.pop() if self._idle else self._started()
        except (OSError, RuntimeError):  # no file descriptor or no thread left
            ticket.close()
            raise NotStarted from None
        call = process.call(function, arguments)
        # The process is busy until the function has ended, whether or not the caller still waits.
        call.add_done_callback(lambda done: self._ended(ticket, tenant, size, process, done))
        try:
            answer = await asyncio.shield(call)
            result: Result = _result_of(answer.result if answer is not None else NotStarted(), field)
            return result
        finally:
            answer = None
            del call  # its error refers to this frame: together they would keep the request until a collection

    async def close(self) -> None:
        """End the processes. Callers that wait get NotStarted."""
        self._closed = True
        for process in list(self._all):
            process.end()
        await asyncio.gather(*(process.stop() for process in list(self._all)))

    def _started(self) -> _Process:
        process = _Process(self._limits, on_end=self._forget)
        self._all.add(process)
        return process

    def _forget(self, process: _Process) -> None:
        self._all.discard(process)
        if process in self._idle:
            self._idle.remove(process)

    def _ended(
        self, ticket: Ticket, tenant: str, size: int, process: _Process, call: asyncio.Future[IsolatedAnswer | None]
    ) -> None:
        answer = call.result()
        if process.usable:
            self._idle.append(process)
        if answer is not None:
            self._turns.charge(tenant, max(0, math.ceil(_SIZE_PER_S * answer.cpu_s) - size))
        ticket.close()


class _Process(ChildProcess):
    """One process. It runs one function at a time."""

    def __init__(self, limits: WorkLimits, *, on_end: Callable[[_Process], None]) -> None:
        self.usable = True
        self._was_killed = False
        self._running: asyncio.Future[IsolatedAnswer | None] | None = None
        self._limits = limits
        self._on_end = on_end
        self._watch: asyncio.TimerHandle | None = None
        super().__init__(MODULE, first=limits, on_message=self._received, on_death=self._died, preload=(PRELOAD,))

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> asyncio.Future[IsolatedAnswer | None]:
        """The answer of the process, None if it was ended from outside or could not be started."""
        self._running = call = self._loop.create_future()
        self._watch = self._loop.call_later(WALL_S_MAX, self.end)
        self.send((function, arguments))
        return call

    def _received(self, answer: IsolatedAnswer) -> None:
        self.usable = not answer.is_last
        self._finish(answer)

    def end(self) -> None:
        """Kill the process for a reason that is not what it reads."""
        self._was_killed = True
        self.kill()

    def _died(self) -> None:
        self.usable = False
        self._on_end(self)
        # The system ends a function that holds the interpreter. A library ends the process when it gets no memory.
        lost = self._was_killed or self.pid is None  # it was ended, or could not be started
        self._finish(None if lost else IsolatedAnswer(Reached.ENDED, self._limits.cpu_s, is_last=True))

    def _finish(self, answer: IsolatedAnswer | None) -> None:
        call, self._running = self._running, None
        if self._watch is not None:
            self._watch.cancel()
        if call is not None and not call.done():
            call.set_result(answer)


def _result_of(result: Any, field: str) -> Any:
    """Return what a function returned. Raises its error."""
    if isinstance(result, Reached):
        raise InvalidInput(_REFUSALS[result], field=field)
    if isinstance(result, TaskFailed):
        raise RuntimeError(result.reason)
    if isinstance(result, GatewayError):
        try:
            raise result
        finally:
            del result  # as above
    return result

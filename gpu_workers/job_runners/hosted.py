"""One attempt at a job on this runner: its folder, its process, and what its gateway hears of both.

Guarantee: what the process has written reaches the gateway before the message that it sent afterwards. The folder holds
the job's files as encrypted as the gateway has them, and lives as long as the attempt. The process lives no longer than
the attempt, and than the process of the runner: its socket then closes.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpc import aio

from core.job_errors import JobFailed
from gpu_workers.child_process import ChildProcess
from gpu_workers.engine.remote.codec import Codec, Undecodable
from gpu_workers.engine.remote.frames import BadFrame, frame
from gpu_workers.job_runners.changes import FolderChanges
from gpu_workers.job_runners.frames import PART_S_MAX, SILENCE_S_MAX, Kind, Listed, drop, parts, read, receive
from gpu_workers.job_runners.kinds import Machine, arrived
from gpu_workers.job_runners.order import Order
from gpu_workers.jobs.folder import FolderBusy
from gpu_workers.jobs.messages import Charged, ChargeRequested, Failed, JobOrder, Progress, Succeeded
from gpu_workers.jobs.places import MODULE

ORDER_S_MAX = 600.0  # from the grant of a place to the order: the gateway fetches the job's files meanwhile
LOOK_S = 0.5  # interval at which changed files are looked for
_BUSY_S = 0.05


@dataclass(frozen=True)
class HostLimits:
    """Settings of the runner. `bytes_max`: of a job's files. `memory_bytes_max`: of a process; 0 for no limit.
    `is_full` reads the disk: whether too little of it is free."""

    bytes_max: int
    memory_bytes_max: int
    is_full: Callable[[], bool]


class Leave:
    """The runner drains."""


class _Gone:
    """The gateway has gone, or broke the protocol."""


class _Died:
    """The process has ended without a result."""


class HostedAttempt:
    """`run` serves one stream; `clean` ends the process and removes the folder, and is safe to repeat."""

    def __init__(self, context: Any, folder: Path, codec: Codec, machine: Machine, limits: HostLimits) -> None:
        self._context = context
        self._folder = folder
        self._codec = codec
        self._machine = machine
        self._limits = limits
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()
        self._process: ChildProcess | None = None
        self._reader: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """End the attempt in order, with what its process has written so far."""
        self._inbox.put_nowait(Leave())

    async def run(self) -> None:
        """Raises BadFrame for what is no order."""
        first = asyncio.create_task(self._next())
        leaving = asyncio.create_task(self._inbox.get())
        try:
            await asyncio.wait({first, leaving}, timeout=ORDER_S_MAX, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                await self._context.write(frame(Kind.LEFT))
                return
            if not first.done():
                return
            order = Order.of(first.result())
        finally:
            first.cancel()
            leaving.cancel()
        ends_at = time.monotonic() + order.seconds_max
        try:
            job = await self._prepared(order)
        except JobFailed as problem:
            await self._context.write(_failed(problem))
            return
        changes = await asyncio.to_thread(FolderChanges, job.folder)  # before the process can change anything
        self._process = ChildProcess(
            MODULE,
            first=job,
            on_message=self._inbox.put_nowait,
            on_death=lambda: self._inbox.put_nowait(_Died()),
        )
        self._reader = asyncio.create_task(self._read())
        await self._serve(order, job.folder, changes, ends_at)

    async def clean(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        if self._process is not None:
            self._process.kill()
            await self._process.stop()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _prepared(self, order: Order) -> JobOrder:
        """The order for the process, once its folder has the files.

        Raises JobFailed for one that is not run, BadFrame if the gateway falls silent before it has sent the files.
        """
        try:
            async with asyncio.timeout(order.seconds_max):
                work, needed = await self._received(order)
        except TimeoutError:
            raise _time_limit() from None
        try:
            spec = self._codec.decode(order.spec)
        except Undecodable:
            raise JobFailed("The job runner cannot read the order.", reason="unknown-kind") from None
        spec = arrived(spec, order.entry_point, work, needed, self._machine)
        limits = [each for each in (order.memory_bytes_max, self._limits.memory_bytes_max) if each]
        return JobOrder(
            order.entry_point,
            work,
            order.key,
            spec,
            priority=order.priority,
            memory_bytes_max=min(limits, default=0),
        )

    async def _received(self, order: Order) -> tuple[Path, Path]:
        """The folders of the job's files and of those that travel with them. Raises as `_prepared`."""
        if order.size > self._limits.bytes_max:
            await drop((*order.files, *order.needed), self._next_part)
            raise _storage_full()
        work, needed = self._folder / "work", self._folder / "needed"
        for folder in (self._folder, work, needed):
            await asyncio.to_thread(folder.mkdir, mode=0o700)
        try:
            await receive(order.files, lambda name: work / name, self._next_part)
            await receive(order.needed, lambda name: needed / name, self._next_part)
        except OSError:
            raise _storage_full() from None
        return work, needed

    async def _next_part(self) -> bytes:
        """As `_next`. A gateway that sends files is never silent, so that a runner can drain."""
        try:
            return await asyncio.wait_for(self._next(), PART_S_MAX)
        except TimeoutError:
            raise BadFrame("the gateway is silent") from None

    async def _next(self) -> bytes:
        message = await self._context.read()
        if message is aio.EOF:
            raise BadFrame("the stream has ended")
        found: bytes = message
        return found

    async def _read(self) -> None:
        """Pass on the answers of the gateway until it goes away or is silent."""
        try:
            while True:
                kind, _ = read(await asyncio.wait_for(self._next(), SILENCE_S_MAX))
                if kind is Kind.CHARGED and self._process is not None:
                    self._process.send(Charged())
                elif kind is not Kind.ALIVE:
                    break
        except Exception:  # noqa: S110 - whatever it was, the gateway is not listened to any more
            pass
        self._inbox.put_nowait(_Gone())

    async def _serve(self, order: Order, work: Path, changes: FolderChanges, ends_at: float) -> None:
        while True:
            messages = await self._messages()
            if any(isinstance(message, _Gone) for message in messages):
                return
            leaves = any(isinstance(message, Leave) for message in messages)
            if leaves and self._process is not None:
                self._process.kill()  # so that it writes nothing that nobody gets
            await self._send_changes(changes)
            for message in messages:
                if await self._passed_on(message, order, work):
                    return
            if time.monotonic() > ends_at:
                await self._context.write(_failed(_time_limit()))
                return
            if await asyncio.to_thread(self._limits.is_full):
                await self._context.write(_failed(_storage_full()))
                return

    async def _messages(self) -> list[Any]:
        """What has come since the last call, also nothing after a moment."""
        try:
            found = [await asyncio.wait_for(self._inbox.get(), LOOK_S)]
        except TimeoutError:
            return []
        while not self._inbox.empty():
            found.append(self._inbox.get_nowait())
        return found

    async def _passed_on(self, message: Any, order: Order, work: Path) -> bool:
        """Send a message of the process. Returns whether it was the last one."""
        match message:
            case Progress(stage, fraction, metrics):
                await self._context.write(frame(Kind.PROGRESS, [stage, fraction, metrics and dict(metrics)]))
                return False
            case ChargeRequested():
                await self._context.write(frame(Kind.CHARGE))
                return False
            case Succeeded(result):
                await self._send_outputs(order, work)
                await self._context.write(frame(Kind.SUCCEEDED, result))
            case Failed(problem):
                await self._context.write(_failed(problem))
            case Leave():
                await self._context.write(frame(Kind.LEFT))
            case _:
                await self._context.write(frame(Kind.DIED))
        return True

    async def _send_changes(self, changes: FolderChanges) -> None:
        """Send the files of one moment, if they differ from those that the gateway has."""
        while True:
            try:
                found = await asyncio.to_thread(changes.look)
                break
            except FolderBusy:
                await asyncio.sleep(_BUSY_S)
        if found is None:
            return
        folder = found.folder
        await self._send_files(found.changed, found.gone, lambda name: folder / name)
        await asyncio.to_thread(changes.sent, found)

    async def _send_outputs(self, order: Order, work: Path) -> None:
        """Send what the process has made."""
        made = await asyncio.to_thread(_sizes, work, order.outputs)
        await self._send_files(made, [], lambda name: work / name)

    async def _send_files(self, files: Sequence[Listed], gone: Iterable[str], place: Callable[[str], Path]) -> None:
        await self._context.write(frame(Kind.FILES, [[[each.name, each.size] for each in files], list(gone)]))
        for each in files:
            content = parts(place(each.name), each.size)
            while (part := await asyncio.to_thread(next, content, None)) is not None:
                await self._context.write(part)


def _sizes(work: Path, names: Iterable[str]) -> list[Listed]:
    return [Listed(name, (work / name).stat().st_size) for name in names if (work / name).is_file()]


def _storage_full() -> JobFailed:
    return JobFailed("The job runner has too little free disk space.", reason="storage-full")


def _time_limit() -> JobFailed:
    return JobFailed("The job ran longer than a job may.", reason="time-limit")


def _failed(problem: JobFailed) -> bytes:
    body = [problem.code, str(problem.detail)[:1000], problem.reason, problem.line, problem.count]
    return frame(Kind.FAILED, body)

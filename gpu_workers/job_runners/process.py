"""The process of a job on a runner, as its gateway sees it.

Guarantee: a file that the runner sends is written only under a name that a job's process may write, and within the
limits of count and bytes. Files are applied to the job's folder when the caller says so, whole moments at once, and
before the message that follows them. What breaks the protocol ends the attempt as the death of its process does.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from grpc import aio

from core.job_errors import BadCorpus, JobFailed, JobFilesLost
from core.ledger.job_records import METRICS
from core.ledger.names import check_label
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.engine.remote.frames import MESSAGE_BYTES_MAX, BadFrame, frame
from gpu_workers.job_runners.frames import ALIVE_S, FILES_MAX, Kind, Listed, listed, parts, read, receive
from gpu_workers.job_runners.kinds import Travelling, departing
from gpu_workers.job_runners.order import Order, is_job_file
from gpu_workers.jobs.folder import GATEWAY_ONLY, versions
from gpu_workers.jobs.messages import Charged, ChargeRequested, Failed, JobOrder, Progress, Succeeded
from gpu_workers.jobs.places import Displaced, FilesChanged

_PROBLEMS = {kind.code: kind for kind in (JobFailed, BadCorpus, JobFilesLost)}
_TEXT_CHARS_MAX = 1000


class RemoteProcess:
    """Runs one attempt under the place that `call` has been granted."""

    def __init__(
        self,
        call: Any,
        codec: Codec,
        order: JobOrder,
        *,
        staging: Path,
        bytes_max: int,
        seconds_max: float,
        on_message: Callable[[Any], None],
        on_death: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        """`staging`: a folder on the file system of the job's folder, for files that arrive. `bytes_max`: of the job's
        files. `on_end` is called when the call has ended."""
        self._call = call
        self._codec = codec
        self._order = order
        self._staging = staging / f".received-{secrets.token_hex(8)}"
        self._bytes_max = bytes_max
        self._seconds_max = seconds_max
        self._on_message = on_message
        self._on_death = on_death
        self._on_end = on_end
        self._outbox: asyncio.Queue[Any] = asyncio.Queue()
        self._sizes: dict[str, int] = {}  # of the job's files, as they are when everything received is applied
        self._outputs: frozenset[str] = frozenset()
        self._batches = 0
        self._task = asyncio.create_task(self._live())

    def send(self, message: Any) -> None:
        if isinstance(message, Charged):
            self._outbox.put_nowait(frame(Kind.CHARGED))

    def kill(self) -> None:
        self._call.cancel()

    async def stop(self) -> None:
        """The runner ends the process when it finds that the call has ended. What the process does until then nobody
        gets."""
        self._call.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._staging, ignore_errors=True)

    async def _live(self) -> None:
        sending: asyncio.Task[None] | None = None
        try:
            try:
                messages = await self._order_messages()
            except JobFailed as problem:
                self._on_message(Failed(problem))
                return
            except (ValueError, TypeError):
                self._on_message(Failed(JobFailed("This job cannot run on a job runner.", reason="unknown-kind")))
                return
            except OSError:
                self._on_message(Failed(JobFilesLost()))
                return
            if not await self._sent(messages):
                return
            sending = asyncio.create_task(self._send_messages())
            while not await self._received():
                pass
        except (Exception, asyncio.CancelledError):
            return
        finally:
            if sending is not None:
                sending.cancel()
            self._call.cancel()
            self._on_end()
            self._on_death()

    async def _order_messages(self) -> Iterator[bytes]:
        """The order, and the files after it. Raises JobFailed for an order beyond the limits of a message or of files,
        ValueError or TypeError for a specification that cannot be sent, OSError for files that cannot be read."""
        order = self._order
        travelling = departing(order.spec, order.folder)
        spec = self._codec.encode(travelling.spec)
        self._outputs = frozenset(travelling.outputs)
        files, needed = await asyncio.to_thread(_sizes, order.folder, travelling)
        if len(files) > FILES_MAX:
            raise _too_large()
        self._sizes = {each.name: each.size for each in files}
        head = Order(
            order.entry_point,
            order.key,
            spec,
            order.priority,
            order.memory_bytes_max,
            self._seconds_max,
            files,
            needed,
            travelling.outputs,
        )
        if len(head.message()) > MESSAGE_BYTES_MAX:  # it could not be sent to any runner
            raise _too_large()
        return _messages(head, order.folder, travelling.needed)

    async def _sent(self, messages: Iterator[bytes]) -> bool:
        """Send the order and its files. Returns False if the place was lost before the runner could get any of it."""
        try:
            await self._call.write(next(messages))
        except (Exception, asyncio.CancelledError):  # a call that has ended raises CancelledError
            self._on_message(Displaced())
            return False
        while (message := await asyncio.to_thread(next, messages, None)) is not None:
            await self._call.write(message)
        return True

    async def _send_messages(self) -> None:
        with suppress(Exception):
            while True:
                message = frame(Kind.ALIVE)
                with suppress(TimeoutError):
                    message = await asyncio.wait_for(self._outbox.get(), ALIVE_S)
                await self._call.write(message)

    async def _next(self) -> bytes:
        message = await self._call.read()
        if message is aio.EOF:
            raise BadFrame("the stream has ended")
        found: bytes = message
        return found

    async def _received(self) -> bool:
        """Pass on what comes next. Returns whether it was the last message. Raises BadFrame."""
        kind, body = read(await self._next())
        match kind:
            case Kind.FILES:
                await self._files(body)
            case Kind.PROGRESS:
                self._on_message(_progress(body))
            case Kind.CHARGE:
                self._on_message(ChargeRequested())
            case Kind.SUCCEEDED if isinstance(body, dict):
                self._on_message(Succeeded(body))
                return True
            case Kind.FAILED:
                self._on_message(Failed(_problem(body)))
                return True
            case Kind.LEFT:
                self._on_message(Displaced())
                return True
            case Kind.DIED:
                return True
            case _:
                raise BadFrame("unexpected")
        return False

    async def _files(self, body: Any) -> None:
        """Receive the files of one moment."""
        if not isinstance(body, list) or len(body) != 2 or not isinstance(body[1], list):
            raise BadFrame("not a list of files")
        found = listed(body[0], lambda name: is_job_file(name) or name in self._outputs)
        gone = body[1]
        if not all(map(is_job_file, gone)):
            raise BadFrame("not a file of a job")
        self._sizes |= {each.name: each.size for each in found}
        for name in gone:
            self._sizes.pop(name, None)
        if len(self._sizes) > FILES_MAX or sum(self._sizes.values()) > self._bytes_max:
            raise BadFrame("more files than a job may have")
        self._batches += 1
        folder = self._staging / str(self._batches)
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True)
        drafts = {each.name: folder / str(number) for number, each in enumerate(found)}
        await receive(found, drafts.__getitem__, self._next)
        applied = asyncio.Event()
        loop = asyncio.get_running_loop()

        def apply() -> None:
            try:
                _apply(self._order.folder, folder, drafts, gone)
            finally:
                loop.call_soon_threadsafe(applied.set)

        self._on_message(FilesChanged(apply))
        await applied.wait()  # until then, the runner's next files wait on its disk, within its limits


def _apply(target: Path, received: Path, drafts: Mapping[str, Path], gone: Sequence[str]) -> None:
    for name, draft in drafts.items():
        path = target / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        os.utime(draft)  # the time of a checkpoint is that at which the gateway has it
        draft.replace(path)
    for name in gone:
        (target / name).unlink(missing_ok=True)
    shutil.rmtree(received, ignore_errors=True)


def _too_large() -> JobFailed:
    return JobFailed("The job's parameters or files are too many for a job runner.", reason="order-too-large")


def _sizes(folder: Path, travelling: Travelling) -> tuple[list[Listed], list[Listed]]:
    own = [Listed(name, (folder / name).stat().st_size) for name in versions(folder, without=GATEWAY_ONLY)]
    return own, [Listed(name, path.stat().st_size) for name, path in travelling.needed.items()]


def _messages(order: Order, folder: Path, needed: Mapping[str, Path]) -> Iterator[bytes]:
    yield order.message()
    for each in order.files:
        yield from parts(folder / each.name, each.size)
    for each in order.needed:
        yield from parts(needed[each.name], each.size)


def _progress(body: Any) -> Progress:
    """Raises BadFrame for what the ledger would not take."""
    try:
        stage, fraction, metrics = body
        if metrics is not None:
            metrics = {name: float(value) for name, value in metrics.items()}
            if not metrics.keys() <= METRICS or not all(map(math.isfinite, metrics.values())):
                raise BadFrame("not metrics of a job")
        if not 0 <= fraction <= 1:
            raise BadFrame("not a fraction")
        return Progress(check_label(stage), float(fraction), metrics)
    except BadFrame:
        raise
    except Exception:
        raise BadFrame("not a progress") from None


def _problem(body: Any) -> JobFailed:
    try:
        code, detail, reason, line, count = body
        kind = _PROBLEMS[code]
        if not all(number is None or type(number) is int for number in (line, count)):
            raise BadFrame("not a number")
        return kind(str(detail)[:_TEXT_CHARS_MAX], reason=str(reason)[:100], line=line, count=count)
    except (KeyError, TypeError, ValueError):
        raise BadFrame("not a problem") from None

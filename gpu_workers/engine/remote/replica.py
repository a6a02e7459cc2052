"""A gateway's connection to one worker server: what it last reported, and the streams that carry batches.

Guarantee: a batch is put back only if this side has not sent the last message of it, or if the server has answered that
it refused it. A server runs only whole batches, so nothing of such a batch was run, and nothing will be. In every
other case the batch ends with a result or as started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Any

from grpc import aio

from core.errors import GatewayError, TaskFailed, WorkerDied
from gpu_workers.engine.batch_spans import trace_work
from gpu_workers.engine.pending import PendingTask
from gpu_workers.engine.portable import contents
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.codec import Blocks, Codec
from gpu_workers.engine.remote.frames import (
    BLOCKS_MAX,
    BODY_BYTES_MAX,
    BRING,
    SERVICE,
    WATCH,
    WORK,
    BadFrame,
    Content,
    Kind,
    Write,
    frame,
    messages,
    read,
    receive,
)
from gpu_workers.engine.remote.object_sender import Objects, places, without_constants
from gpu_workers.engine.remote.refused import Refused, lacked_too_often, refusal
from gpu_workers.engine.remote.state import WorkerState
from gpu_workers.engine.remote.state_watcher import StateWatcher

SLOTS = 2
_SECONDS_MAX = 1e6  # of a batch, as a worker reports it
_RETRY_S = 0.2


class Phase(Enum):
    """Of a lane. ASKING: no answer yet. WAITING: the server has said that all its slots are taken."""

    IDLE = auto()
    ASKING = auto()
    WAITING = auto()
    GRANTED = auto()
    RUNNING = auto()


class Lane:
    """One stream, which has at most one slot at a time."""

    def __init__(self, replica: Replica) -> None:
        self.phase = Phase.IDLE
        self.tokens = 0  # of the batch that runs
        self._replica = replica
        self._call: Any = None
        self._slot = 0
        self._closed = False
        self._done = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Ask for a slot. The lane becomes GRANTED, or IDLE if the connection fails."""
        self.phase = Phase.ASKING
        self._start(self._ask())

    def release(self) -> None:
        """Give a granted slot back."""
        self.phase = Phase.RUNNING
        self._start(self._release())

    def run(self, batch: Sequence[PendingTask]) -> None:
        """Send a batch under the granted slot and set its results. The lane is IDLE afterwards."""
        self.phase = Phase.RUNNING
        self.tokens = sum(pending.work for pending in batch)
        self._start(self._run(batch), batch)

    def _start(self, work: Coroutine[Any, Any, None], batch: Sequence[PendingTask] = ()) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled():  # before its first step: later, the work ends without an exception and is IDLE
                if batch:
                    self._replica.put_back(batch, (), (), False)
                self._become(Phase.IDLE)

        self._task = asyncio.create_task(work)
        self._task.add_done_callback(ended)

    async def close(self) -> None:
        """Cancel the stream. A batch that was sent ends with WorkerDied."""
        self._closed = True
        if self._call is not None:
            self._call.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def finish(self, grace_s: float) -> None:
        """Wait for a batch that runs, then close."""
        if self.phase is Phase.RUNNING and self._task is not None:
            await asyncio.wait({self._task}, timeout=grace_s)
        await self.close()

    def cut(self) -> None:
        """Give up the stream of a server that is silent. A batch that was sent ends with WorkerDied."""
        if self._call is not None:
            self._call.cancel()
        if self._task is not None:
            self._task.cancel()  # a write to a stream that ends before it is connected does not return

    def _become(self, phase: Phase) -> None:
        self.phase = phase
        if phase is Phase.IDLE:
            self.tokens = 0
        self._replica.on_lane()

    def _drop(self) -> None:
        if self._call is not None:
            self._call.cancel()
        self._call = None

    async def _ask(self) -> None:
        try:
            if self._call is None or self._call.done():
                self._call = self._replica.open_stream()
            await self._call.write(frame(Kind.ASK))
            while True:
                kind, body = await self._read()
                if kind is Kind.GRANT:
                    self._slot = int(body)
                    self._become(Phase.GRANTED)
                    return
                if kind is Kind.WAIT:
                    self._become(Phase.WAITING)
                elif kind is not Kind.REVOKED:  # of an earlier slot
                    raise BadFrame("unexpected")
        except (Exception, asyncio.CancelledError):  # a stream that was cut raises CancelledError
            self._drop()
            if not self._closed:
                with suppress(asyncio.CancelledError):  # the stream was cut again
                    await asyncio.sleep(_RETRY_S)
            self._become(Phase.IDLE)

    async def _release(self) -> None:
        await self._give_back()
        self._become(Phase.IDLE)

    async def _give_back(self) -> None:
        try:
            await self._call.write(frame(Kind.RELEASE, self._slot))
        except (Exception, asyncio.CancelledError):
            self._drop()

    async def _read(self) -> tuple[Kind, Any]:
        message = await self._call.read()
        if message is aio.EOF:
            raise BadFrame("the stream has ended")
        return read(message)

    async def _part(self) -> bytes:
        message = await self._call.read()
        if message is aio.EOF:
            raise BadFrame("the stream has ended")
        found: bytes = message
        return found

    async def _run(self, batch: Sequence[PendingTask]) -> None:
        results: Sequence[Any] | GatewayError
        try:
            batch, body, blocks = await self._encoded(batch)
            results, seconds = await self._exchange(body, blocks, len(batch))
        except Refused as refused:
            lacking = lacked_too_often(batch, refused.lacking, self._replica.objects)
            self._replica.put_back(batch, lacking, refused.unsendable, refused.lost)
        except GatewayError as error:
            _finish(batch, error)
        except (Exception, asyncio.CancelledError):  # a stream that was cut raises CancelledError
            self._drop()
            _finish(batch, WorkerDied())
        else:
            trace_work(batch, seconds)
            self._replica.on_batch(sum(pending.work for pending in batch), seconds)
            for pending, result in zip(batch, results, strict=True):
                pending.finish(result)
        self._become(Phase.IDLE)

    async def _encoded(self, batch: Sequence[PendingTask]) -> tuple[Sequence[PendingTask], bytes, Blocks]:
        """Return as much of a batch as one message may hold, its body and its blocks. The rest is put back.

        Gives the slot back and raises Refused if a task cannot be encoded or is too large alone, so that the batch is
        put back without it: the other tasks, which may be of other tenants, run later.
        """
        encoded = self._encode(batch)
        if encoded is None:
            bad = [place for place, pending in enumerate(batch) if self._encode([pending]) is None]
            if bad:
                await self._give_back()
                raise Refused(unsendable=bad)
        while encoded is None:
            half = len(batch) // 2
            self._replica.put_back(batch[half:], (), (), False)
            batch = batch[:half]
            encoded = self._encode(batch)
        return batch, *encoded

    def _encode(self, batch: Sequence[PendingTask]) -> tuple[bytes, Blocks] | None:
        """The body and the blocks of a batch; None if it cannot be sent."""
        blocks = Blocks()
        try:
            body = self._replica.codec.encode([pending.task.payload for pending in batch], blocks)
        except Exception:  # the messages may contain text
            return None
        return (body, blocks) if len(body) <= BODY_BYTES_MAX and len(blocks.blocks) <= BLOCKS_MAX else None

    async def _exchange(self, body: bytes, blocks: Blocks, tasks: int) -> tuple[list[Any], float]:
        """Send a batch and return its results and the time that it took. Raises Refused if nothing was run."""
        views = without_constants(blocks, contents(blocks))
        head = [self._slot, places(blocks)]
        await self._send(head, Content(body, views))
        del body, views
        kind, answer = await self._read()
        while kind is Kind.REVOKED:  # it crossed the batch, which is then refused
            kind, answer = await self._read()
        if kind is Kind.REFUSED:
            raise refusal(answer, tasks)
        if kind is Kind.DIED:
            raise WorkerDied
        if kind is not Kind.DONE:
            raise BadFrame("unexpected")
        return await self._answer(answer, blocks, tasks)

    async def _send(self, head: list[Any], content: Content) -> None:
        """Send a batch. Raises Refused if it fails before the last message is sent."""
        following = iter(messages(Kind.BATCH, head, content))
        message: bytes | None = next(following)
        while message is not None:
            after = next(following, None)
            if after is None and self._call.done():
                raise Refused
            try:
                await self._call.write(message)
            except (Exception, asyncio.CancelledError):
                if after is None:
                    raise  # the server may have it
                self._drop()
                raise Refused from None
            message = after

    async def _answer(self, answer: Any, blocks: Blocks, tasks: int) -> tuple[list[Any], float]:
        _, seconds, starts, lengths, inline = answer
        writers: list[Write] = []
        found = zip(blocks.blocks, blocks.ranges, blocks.arrays, starts, lengths[1:], strict=True)
        for block, (first, last), arrays, start, length in found:
            if not 0 <= start <= start + length <= last - first:
                raise BadFrame("a change beyond its block")
            writers.append(_writer(block, first + start, arrays))
        body = await receive(lengths, inline, self._part, writers)
        results = self._replica.codec.decode(body)
        if not isinstance(results, list) or len(results) != tasks:
            raise TaskFailed(reason="result-count")
        return results, float(seconds) if 0 <= seconds < _SECONDS_MAX else 0.0


def _writer(block: Any, base: int, arrays: Sequence[tuple[int, int]]) -> Write:
    """Write what belongs to `arrays`. A worker returns one range of each block. What lies between the arrays is as old
    as the batch, and another batch may have written it since."""

    def write(data: memoryview, at: int) -> None:
        first, last = base + at, base + at + len(data)
        for start, end in arrays:
            if (begin := max(start, first)) < (stop := min(end, last)):
                block.write(data[begin - first : stop - first], begin)

    return write


def _finish(batch: Sequence[PendingTask], error: GatewayError) -> None:
    for pending in batch:
        pending.finish(error)


class Replica:
    """One worker server. `on_state` is called when its state has changed, `on_lane` when a lane has."""

    def __init__(
        self,
        address: str,
        codec: Codec,
        access: Access,
        *,
        gateway: str,
        on_state: Callable[[], None],
        on_lane: Callable[[], None],
        put_back: Callable[[Sequence[PendingTask], Collection[int], Collection[int], bool], None],
        on_batch: Callable[[int, float], None],
        on_sent: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_sent`: see `Objects`. Raises ValueError or OSError as `Access.channel`."""
        self.address = address
        self.codec = codec
        self.on_state = on_state
        self.on_lane = on_lane
        self.put_back = put_back
        self.on_batch = on_batch
        self.lanes = [Lane(self) for _ in range(SLOTS)]
        self._metadata = access.metadata(gateway=gateway, schema=codec.schema)
        self._channel = access.channel(address)
        self.objects = Objects(
            lambda: self._channel.stream_stream(f"/{SERVICE}/{BRING}")(metadata=self._metadata), on_sent=on_sent
        )
        self._watcher = StateWatcher(
            lambda: self._channel.unary_stream(f"/{SERVICE}/{WATCH}")(b"", metadata=self._metadata),
            partial(WorkerState.read, codec=codec),
            on_change=self._changed,
            on_loss=self._cut,
        )

    def start(self) -> None:
        self._watcher.start()

    async def stop(self, *, grace_s: float = 5.0) -> None:
        self._watcher.stop()
        await self.objects.close()
        await asyncio.gather(*(lane.finish(grace_s) for lane in self.lanes))
        await self._channel.close()

    @property
    def state(self) -> WorkerState | None:
        """What the server last reported; None while there is no connection."""
        return self._watcher.state

    @property
    def reachable(self) -> bool:
        """Whether the server has reported in time."""
        return self._watcher.reachable

    @property
    def ready(self) -> bool:
        return self.reachable and self.state is not None and self.state.ready

    @property
    def busy(self) -> bool:
        """Whether a batch of this gateway is under way."""
        return any(lane.phase is Phase.RUNNING for lane in self.lanes)

    @property
    def tokens(self) -> int:
        """The tokens of this gateway's batches that run there."""
        return sum(lane.tokens for lane in self.lanes)

    def open_stream(self) -> Any:
        return self._channel.stream_stream(f"/{SERVICE}/{WORK}")(metadata=self._metadata)

    def _changed(self) -> None:
        if self.state is not None:
            self.objects.are_of(self.state.instance)
        self.on_state()

    def _cut(self) -> None:
        for lane in self.lanes:
            lane.cut()

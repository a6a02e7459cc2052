"""A worker that gateways on other machines use: a gRPC server in front of one handler's process.

Guarantee: a batch is run at most once, whole, and only under a slot that was granted to its stream and has not been
taken back. Of a batch that was refused, the handler has run nothing and will run nothing. Text and vectors are in the
memory of this process and of the handler's. Neither writes them anywhere: errors leave as codes, and no exception of a
call reaches the log of the gRPC library.

`frames` has the protocol. A slot that is not used within `slot_s` seconds is taken back, so a gateway that is frozen
keeps no slot. A slot whose gateway has gone while its batch runs is free when the batch has ended.
"""

from __future__ import annotations

import asyncio
import resource
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
from grpc import aio

from core.errors import WorkerDied
from gpu_workers.engine.arrays import ARRAY_BYTES_MAX
from gpu_workers.engine.handler import HandlerFactory
from gpu_workers.engine.local.messages import Done
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.child import HandlerProcess, NotBegun
from gpu_workers.engine.remote.codec import Codec, Undecodable
from gpu_workers.engine.remote.frames import (
    BRING,
    BRINGS_MAX,
    GATEWAY,
    LOST,
    SCHEMA,
    SERVICE,
    STALE,
    UNREADABLE,
    WATCH,
    WORK,
    BadFrame,
    Content,
    Kind,
    frame,
    messages,
    read,
)
from gpu_workers.engine.remote.heap import keep_freed_memory
from gpu_workers.engine.remote.load import LoadMeter
from gpu_workers.engine.remote.object_server import Claim, WorkerFiles, claim_or_refusal
from gpu_workers.engine.remote.received import NoMemory, Parts, ReceivedBatch, answer, drop, receive_batch
from gpu_workers.engine.remote.slots import Slots
from gpu_workers.engine.remote.state import WorkerState, fingerprint

SLOTS = 2  # one batch that runs and one that waits in the handler's socket
STATE_S = 2.0  # a gateway hears from a worker at least this often
CALLS_MAX = 1024
_STREAMS_PER_GATEWAY_MAX = 2 * SLOTS  # those of a connection that was lost may end later than new ones begin
_GRACE_S = 1.0


class WorkerServer:
    """`start`, then `drain` and `stop`. `port`: the one that it listens on."""

    def __init__(
        self,
        role: Role,
        factory: HandlerFactory,
        codec: Codec,
        access: Access,
        *,
        listen: str,
        content: str = "",
        files: WorkerFiles | None = None,
        batch_seconds_max: float = 120.0,
        slot_s: float = 5.0,
        array_bytes_max: int = ARRAY_BYTES_MAX,
    ) -> None:
        """`content`: see `state.fingerprint`. `files`: by default, tasks have no files. `array_bytes_max`: of the
        arrays of one batch.

        Raises ValueError or OSError for an address or TLS files that cannot be used.
        """
        self.role = role
        self._codec = codec
        self._access = access
        self._content = content
        self._slot_s = slot_s
        self._array_bytes_max = array_bytes_max
        self._files = files or WorkerFiles()
        self._progress = asyncio.Event()
        self._slots = Slots(SLOTS, on_free=self._progress.set)
        self._instance = secrets.token_hex(8)
        self._changed = asyncio.Event()
        self._draining = False
        self._deaths = 0
        self._was_ready = False
        self._streams: Counter[tuple[str, str]] = Counter()
        self._sending = 0  # streams that wait for results, or send them
        self._batches: set[asyncio.Task[Done]] = set()
        self.handler = HandlerProcess(role, factory, batch_seconds_max=batch_seconds_max, on_change=self._on_change)
        self._server, self.port = access.server(listen, calls_max=CALLS_MAX)
        handlers = {
            WORK: grpc.stream_stream_rpc_method_handler(access.guarded(self._work)),
            BRING: grpc.stream_stream_rpc_method_handler(access.guarded(self._bring)),
            WATCH: grpc.unary_stream_rpc_method_handler(access.guarded(self._watch)),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    @property
    def state(self) -> WorkerState:
        own = self.handler
        return WorkerState(
            role=self.role,
            schema=self._codec.schema,
            instance=self._instance,
            ready=own.ready and not self._draining,
            stage=own.stage,
            failure=own.failure,
            fingerprint="" if own.facts is None else fingerprint(own.facts, self._codec, self._content),
            facts=own.facts,
            draining=self._draining,
            deaths=self._deaths,
            waiting=self._slots.waiting,
            pid=own.pid or 0,
        )

    @property
    def load(self) -> LoadMeter:
        """Of its slots."""
        return self._slots.load

    async def start(self) -> None:
        """Listen, and begin to load the handler. Sets limits of this process, which the handler's process inherits."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain text
        _, files = resource.getrlimit(resource.RLIMIT_NOFILE)  # each connection and each array of a batch is one
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        keep_freed_memory()
        await self._server.start()
        self.handler.start()

    async def drain(self) -> None:
        """Grant no slot any more, and return once all granted ones have ended and their results were sent."""
        self._draining = True
        self._slots.close()
        self._on_change()
        while self._slots.granted or self._sending:
            self._progress.clear()
            await self._progress.wait()

    async def stop(self) -> None:
        """End the calls and the handler. A batch that runs is lost, so `drain` first."""
        self._slots.close()
        await self._server.stop(_GRACE_S)
        await self.handler.stop()

    def _on_change(self) -> None:
        if self._was_ready and not self.handler.ready:
            self._deaths += 1
        self._was_ready = self.handler.ready
        if self.handler.ready and not self._draining:
            self._slots.open()
        else:
            self._slots.close()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _watch(self, _: bytes, context: Any) -> None:
        while True:
            changed = self._changed
            await context.write(self.state.message(self._codec))
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), STATE_S)

    async def _work(self, _: Any, context: Any) -> None:
        with self._stream(context, WORK, _STREAMS_PER_GATEWAY_MAX) as gateway:
            await _Stream(context, self).serve(gateway)

    async def _bring(self, _: Any, context: Any) -> None:
        with self._stream(context, BRING, 2 * BRINGS_MAX):

            async def read_message() -> bytes | None:
                message = await asyncio.wait_for(context.read(), self._slot_s)
                return None if message is aio.EOF else message

            await self._files.receive(read_message, context.write)

    @contextmanager
    def _stream(self, context: Any, kind: str, streams_max: int) -> Iterator[str]:
        """Admits a stream of a gateway, and yields the gateway's id."""
        metadata = dict(context.invocation_metadata() or ())
        gateway = str(metadata.get(GATEWAY, ""))[:64]
        own = kind, gateway
        if metadata.get(SCHEMA) != self._codec.schema or self._streams[own] >= streams_max:
            raise BadFrame("another version, or too many streams")
        self._streams[own] += 1
        try:
            yield gateway
        finally:
            self._streams[own] -= 1
            if not self._streams[own]:
                del self._streams[own]

    # what a stream uses

    @property
    def slots(self) -> Slots:
        return self._slots

    @property
    def slot_s(self) -> float:
        return self._slot_s

    @property
    def files(self) -> WorkerFiles:
        return self._files

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Keep the server from ending while a stream waits for results or sends them."""
        self._sending += 1
        try:
            yield
        finally:
            self._sending -= 1
            self._progress.set()

    async def run(self, slot: int, claim: Claim) -> Done:
        """Run a batch, and free its slot when it has ended, also if the caller is cancelled. Its files stay until
        then."""

        async def run() -> Done:
            try:
                return await self.handler.run(claim.payloads)
            finally:
                self._slots.give_back(slot)

        batch = asyncio.create_task(run())
        self._batches.add(batch)
        batch.add_done_callback(self._ended)
        return await asyncio.shield(batch)

    def _ended(self, batch: asyncio.Task[Done]) -> None:
        self._batches.discard(batch)
        if not batch.cancelled():
            batch.exception()  # it was looked at, so that nothing logs it

    async def received(
        self, blocks: list[list[int]], lengths: list[int], inline: bytes | None, parts: Parts
    ) -> ReceivedBatch:
        """See `receive_batch`."""
        return await receive_batch(
            self._codec, blocks, lengths, inline, parts, bytes_max=self._array_bytes_max, known=self._files.block
        )

    def answer(self, done: Done, batch: ReceivedBatch) -> tuple[list[int], Content]:
        """See `received.answer`."""
        return answer(self._codec, done, batch)


class _Stream:
    """One stream of a gateway. It has at most one slot at a time.

    A batch with tasks whose files this worker lacks, or that it cannot read, is refused as a whole, before anything of
    it is run. The refusal names these tasks, so that the gateway sends the others again.
    """

    def __init__(self, context: Any, server: WorkerServer) -> None:
        self._context = context
        self._server = server
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue(2)  # a slow receiver slows the sender

    async def serve(self, gateway: str) -> None:
        reader = asyncio.create_task(self._read())
        try:
            while (message := await self._inbox.get()) is not None:
                kind, body = read(message)
                if kind is Kind.ASK:
                    await self._slot(gateway)
                elif kind is Kind.BATCH:  # under a slot that was taken back
                    await self._refuse(body)
                elif kind not in (Kind.RELEASE, Kind.PART):
                    raise BadFrame("unexpected")
        finally:
            reader.cancel()

    async def _read(self) -> None:
        with suppress(Exception):
            while (message := await self._context.read()) is not aio.EOF:
                await self._inbox.put(message)
        await self._inbox.put(None)

    async def _slot(self, gateway: str) -> None:
        """Grant a slot and run the batch that comes for it."""
        slots = self._server.slots
        asked = slots.ask(gateway)
        try:
            if not asked.done():
                await self._context.write(frame(Kind.WAIT))
                await asked  # if the gateway goes away, the library cancels this call
            slot = asked.result()
        except BaseException:
            if not asked.cancel() and not asked.cancelled():
                slots.give_back(asked.result())
            raise
        running = False
        try:
            await self._context.write(frame(Kind.GRANT, slot))
            message = await self._next()
            if message is None:
                await self._context.write(frame(Kind.REVOKED, slot))
                return
            kind, body = read(message)
            if kind is Kind.RELEASE:
                return
            if kind is not Kind.BATCH or body[0] != slot:
                raise BadFrame("not a batch under this slot")
            batch = await self._batch(body)
            claim, refusal = await self._claim(batch)
            if batch is None or claim is None:
                await self._context.write(frame(Kind.REFUSED, [slot, *refusal]))
                return
            running = True  # from now on the slot is freed by the end of the batch
            await self._run(slot, batch, claim)
        finally:
            if not running:
                slots.give_back(slot)

    async def _next(self) -> bytes | None:
        """The next message; None if it does not come in time. Raises BadFrame at the end of the stream."""
        try:
            message = await asyncio.wait_for(self._inbox.get(), self._server.slot_s)
        except TimeoutError:
            return None
        if message is None:
            raise BadFrame("the stream has ended")
        return message

    async def _part(self) -> bytes:
        message = await self._next()
        if message is None:
            raise BadFrame("a part did not come in time")
        return message

    async def _batch(self, body: Any) -> ReceivedBatch | None:
        """A batch; None if none of it can be read."""
        _, blocks, lengths, inline = body
        try:
            return await self._server.received(blocks, lengths, inline, self._part)
        except NoMemory:
            await drop(lengths, inline, self._part)
            return None
        except Undecodable:
            return None

    async def _claim(self, batch: ReceivedBatch | None) -> tuple[Claim | None, list[Any]]:
        if batch is None:
            return None, [UNREADABLE]
        return await asyncio.to_thread(claim_or_refusal, self._server.files, batch)

    async def _run(self, slot: int, batch: ReceivedBatch, claim: Claim) -> None:
        with self._server.sending():
            await self._send(slot, batch, claim)

    async def _send(self, slot: int, batch: ReceivedBatch, claim: Claim) -> None:
        try:
            done = await self._server.run(slot, claim)
        except WorkerDied:
            await self._context.write(frame(Kind.DIED, slot))
            return
        except NotBegun:
            await self._context.write(frame(Kind.REFUSED, [slot, LOST]))
            return
        starts, content = self._server.answer(done, batch)
        for message in messages(Kind.DONE, [slot, done.seconds, starts], content):
            await self._context.write(message)

    async def _refuse(self, body: Any) -> None:
        """Drop a batch whose slot was taken back, and say that nothing of it was run."""
        slot, _, lengths, inline = body
        await drop(lengths, inline, self._part)
        await self._context.write(frame(Kind.REFUSED, [slot, STALE]))

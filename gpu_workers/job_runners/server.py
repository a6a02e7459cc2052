"""A job runner: a gRPC server that runs the processes of jobs for gateways on other machines.

Guarantee: at most `places` attempts at a time, each in a folder of its own that is removed at its end. Whatever ends
the connection of an attempt - its gateway is gone, frozen or has cancelled - ends its process. A runner decides nothing
about a job: its gateway has the lease, the charge and the files that count (decision 55).

No exception of a call reaches the log of the gRPC library, and the runner writes nothing about jobs to its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import resource
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import msgpack

from core.files.file_lock import FileLock
from gpu_workers.engine.remote.access import Access
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.engine.remote.frames import SCHEMA, BadFrame, frame
from gpu_workers.engine.remote.load import LoadMeter
from gpu_workers.job_runners.frames import JOBS, RUN, SERVICE, WATCH, Kind
from gpu_workers.job_runners.hosted import HostedAttempt, HostLimits
from gpu_workers.job_runners.kinds import Machine
from gpu_workers.job_runners.state import RunnerState

STATE_S = 2.0  # a gateway hears from a runner at least this often
CALLS_MAX = 1024
_GRACE_S = 1.0
_LOCK_S_MAX = 60.0


class JobRunnerServer:
    """`start`, then `drain` and `stop`. `port`: the one that it listens on."""

    role = JOBS

    def __init__(
        self,
        codec: Codec,
        access: Access,
        *,
        listen: str,
        root: Path,
        machine: Machine,
        limits: HostLimits,
        places: int = 1,
        content: str = "",
    ) -> None:
        """`root`: a folder that runners of this machine may share. `content`: a digest of the models and lists that
        decide what jobs make.

        Raises ValueError or OSError for an address or TLS files that cannot be used.
        """
        self._codec = codec
        self._machine = machine
        self._limits = limits
        self.load = LoadMeter()  # of its places
        self._places = places
        self._fingerprint = hashlib.sha256(msgpack.packb([codec.schema, content])).hexdigest()
        self._instance = secrets.token_hex(8)
        self._root = root
        self._folder = root / self._instance
        self._lock = FileLock(root / f"{self._instance}.lock")
        self._attempts: set[HostedAttempt] = set()  # each has a place until its folder is removed
        self._cleaning: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._draining = False
        self._full = False
        self._looking: asyncio.Task[None] | None = None
        self._server, self.port = access.server(listen, calls_max=CALLS_MAX)
        handlers = {
            RUN: grpc.stream_stream_rpc_method_handler(access.guarded(self._run)),
            WATCH: grpc.unary_stream_rpc_method_handler(access.guarded(self._watch)),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    @property
    def state(self) -> RunnerState:
        free = 0 if self._draining or self._full else self._places - len(self._attempts)
        return RunnerState(
            schema=self._codec.schema,
            instance=self._instance,
            fingerprint=self._fingerprint,
            stage="too little free disk space" if self._full else "ready",
            draining=self._draining,
            places=self._places,
            free=max(0, free),
        )

    async def start(self) -> None:
        """Remove what runners have left that are gone, and listen. Raises OSError."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain text
        await self._claim_folder()
        await self._server.start()
        self._looking = asyncio.create_task(self._look_at_disk())

    async def drain(self) -> None:
        """Take no attempt any more, and let those that run leave with their checkpoints. Their jobs continue
        elsewhere."""
        self._draining = True
        self._on_change()
        for attempt in self._attempts:
            attempt.leave()
        while self._attempts:
            self._idle.clear()
            await self._idle.wait()

    async def stop(self) -> None:
        """End the calls and the processes, and remove the folders. `drain` first."""
        self._draining = True
        if self._looking is not None:
            self._looking.cancel()
        await self._server.stop(_GRACE_S)
        await asyncio.gather(*(attempt.clean() for attempt in self._attempts), *self._cleaning)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        self._lock.release()
        with suppress(OSError):
            (self._root / f"{self._instance}.lock").unlink()

    async def _claim_folder(self) -> None:
        await asyncio.to_thread(self._root.mkdir, mode=0o700, parents=True, exist_ok=True)
        starting = FileLock(self._root / "starting.lock")
        if not await starting.acquire(_LOCK_S_MAX):
            raise OSError("another job runner of this machine does not end its start")
        try:
            await asyncio.to_thread(self._remove_abandoned)
            if not self._lock.try_acquire():
                raise OSError("the lock of a new folder is held")
            await asyncio.to_thread(self._folder.mkdir, mode=0o700)
        finally:
            starting.release()

    def _remove_abandoned(self) -> None:
        """Remove the folders of runners whose lock nobody holds."""
        for path in self._root.glob("*.lock"):
            lock = FileLock(path)
            if path.name != "starting.lock" and lock.try_acquire():
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink(missing_ok=True)
                lock.release()

    async def _look_at_disk(self) -> None:
        while True:
            full = self._full
            with suppress(OSError):
                full = await asyncio.to_thread(self._limits.is_full)
            if full != self._full:
                self._full = full
                self._on_change()
            await asyncio.sleep(STATE_S)

    def _on_change(self) -> None:
        self.load.set(in_use=len(self._attempts))
        self._changed.set()
        self._changed = asyncio.Event()

    async def _watch(self, _: bytes, context: Any) -> None:
        while True:
            changed = self._changed
            await context.write(self.state.message())
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), STATE_S)

    async def _run(self, _: Any, context: Any) -> None:
        metadata = dict(context.invocation_metadata() or ())
        if metadata.get(SCHEMA) != self._codec.schema:
            raise BadFrame("another version")
        if self.state.free == 0:
            await context.write(frame(Kind.REFUSED))
            return
        attempt = HostedAttempt(context, self._folder / secrets.token_hex(8), self._codec, self._machine, self._limits)
        self._attempts.add(attempt)
        self._on_change()
        try:
            await context.write(frame(Kind.GRANT))
            await attempt.run()
        finally:  # the library cancels this call if the gateway goes away
            task = asyncio.ensure_future(self._clean(attempt))
            self._cleaning.add(task)
            task.add_done_callback(self._cleaning.discard)

    async def _clean(self, attempt: HostedAttempt) -> None:
        try:
            await attempt.clean()
        finally:
            self._attempts.discard(attempt)
            self._on_change()
            self._idle.set()

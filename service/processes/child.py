"""One process of the supervisor, which is started again when it ends, and the socket between the two.

The supervisor sends one line of JSON, the order, and keeps its end open. A process sends `READY` once it is. The end of
the supervisor, however it comes, closes its end, and every process then stops in an orderly way. So none outlives its
supervisor by more than its requests.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

READY = b"ready\n"


class Lifeline:
    """The end of a process. The order is read on construction."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._socket = socket.socket(fileno=fd)
        with self._socket.makefile("rb") as file:
            self.order: dict[str, Any] = json.loads(file.readline() or b"{}")

    def watch(self) -> None:
        """Send this process SIGTERM when the supervisor has ended. Call this on the event loop."""
        loop, fd = asyncio.get_running_loop(), self._socket.fileno()

        def ended() -> None:
            with suppress(ConnectionError):
                if os.read(fd, 1):
                    return
            loop.remove_reader(fd)
            os.kill(os.getpid(), signal.SIGTERM)

        os.set_blocking(fd, False)
        loop.add_reader(fd, ended)

    def report_ready(self) -> None:
        with suppress(OSError):  # the supervisor has ended, which `watch` notices
            self._socket.send(READY)


DELAY_S = (0.1, 0.5, 2.0, 5.0, 10.0)  # before the first, the second, ... start in a row
STABLE_S = 60.0
STARTS_MAX = 3  # of a process that was never ready


class Child:
    """Runs `python -P -m MODULE LIFELINE FILES... [CONNECTION]`, and again whenever it ends, until `stop`.

    `-P` prevents a folder `core` in the working directory from shadowing the package. The process has a session of its
    own: Ctrl-C reaches the supervisor alone, which ends its processes in order.
    """

    def __init__(
        self,
        name: str,
        module: str,
        order: Mapping[str, Any],
        environment: Mapping[str, str],
        *,
        files: Sequence[int] = (),
        connect: Callable[[], socket.socket | None] = lambda: None,
        say: Callable[[str], None],
    ) -> None:
        """`order`: what the process gets on its lifeline. `files`: descriptors that it inherits beside it. `connect`:
        opens a connection that each start inherits. It may block, and raises OSError."""
        self.name = name
        self.ready = asyncio.Event()  # it was once
        self.failed = asyncio.Event()  # it ended `STARTS_MAX` times without ever being ready
        self._module = module
        self._order = order
        self._environment = environment
        self._files = files
        self._connect = connect
        self._say = say
        self._process: Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self, *, grace_s: float) -> None:
        """End the process by SIGTERM, or by SIGKILL if it is still there after `grace_s`."""
        self._stopping = True
        if self._process is None and self._keeping is not None:
            self._keeping.cancel()  # it waits to start the process again
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
        if self._keeping is None:
            return
        done, _ = await asyncio.wait({self._keeping}, timeout=grace_s)
        if not done and self._process is not None:
            self._say(f"{self.name} does not end and is killed")
            with suppress(ProcessLookupError):
                self._process.kill()
            await asyncio.wait({self._keeping})

    async def _keep(self) -> None:
        ended_in_a_row = 0
        while not self._stopping:
            began = time.monotonic()
            try:
                ending = f"has ended with status {await self._run()}"
            except OSError as error:
                ending = f"could not be started ({error.strerror})"
            if self._stopping:
                return
            ended_in_a_row = 1 if time.monotonic() - began > STABLE_S else ended_in_a_row + 1
            if not self.ready.is_set() and ended_in_a_row >= STARTS_MAX:
                self._say(f"{self.name} {ending}")
                self.failed.set()
                return
            self._say(f"{self.name} {ending} and is started again")
            await asyncio.sleep(DELAY_S[min(ended_in_a_row, len(DELAY_S)) - 1])

    async def _run(self) -> int:
        connection = await asyncio.to_thread(self._connect)
        ours, theirs = socket.socketpair()
        try:
            with theirs, connection or nullcontext():
                own = [theirs.fileno(), *self._files]
                descriptors = own if connection is None else [*own, connection.fileno()]
                self._process = process = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", self._module, *map(str, descriptors),
                    stdin=DEVNULL, pass_fds=descriptors, env=dict(self._environment), start_new_session=True,
                )  # fmt: skip
            if self._stopping:
                process.terminate()
            listening = asyncio.create_task(self._converse(ours))
            try:
                return await process.wait()
            finally:
                listening.cancel()
                await asyncio.wait({listening})  # before its socket is closed
        finally:
            self._process = None
            ours.close()

    async def _converse(self, ours: socket.socket) -> None:
        """Send the order, and notice when the process is ready."""
        loop = asyncio.get_running_loop()
        ours.setblocking(False)
        with suppress(ConnectionError):
            await loop.sock_sendall(ours, json.dumps(self._order).encode() + b"\n")
            received = b""
            while data := await loop.sock_recv(ours, 64):
                received = (received + data)[-len(READY) :]
                if received == READY:
                    self.ready.set()

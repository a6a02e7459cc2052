"""The socket between the supervisor and each of its processes.

The supervisor sends one line of JSON, the order, and keeps its end open. A process sends `READY` once it is. The end of
the supervisor, however it comes, closes its end, and every process then stops in an orderly way. So none outlives its
supervisor by more than its requests.
"""

import asyncio
import json
import os
import signal
import socket
from contextlib import suppress
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

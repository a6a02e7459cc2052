"""Run a worker server in this process until a signal ends it.

SIGTERM and SIGINT drain it: it finishes the batches that it has, takes no further one, and exits. A second signal ends
it at once. The process writes lines about its own state, and nothing about requests.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any, Protocol

from gpu_workers.engine.remote.console import print_state
from gpu_workers.engine.remote.load import LoadMeter


class Server(Protocol):
    """A worker server or a job runner. `role` is a string."""

    @property
    def role(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def state(self) -> Any:
        """Has `shown`, the stage for people."""

    @property
    def load(self) -> LoadMeter:
        """Measures what it has in work and what waits for it."""

    async def start(self) -> None: ...

    async def drain(self) -> None: ...

    async def stop(self) -> None: ...


async def serve_until_signal(make: Callable[[], Server], *, drain_s: float) -> int:
    """Return the exit status. `drain_s`: how long started batches may take once the server drains."""
    asked, again = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        (again if asked.is_set() else asked).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        server = make()
    except (ValueError, OSError) as error:
        print_state(f"cannot start: {error}")
        return 1
    await server.start()
    shown = asyncio.create_task(_show(server))
    await asked.wait()
    print_state("draining")
    draining = asyncio.ensure_future(server.drain())
    ended = asyncio.ensure_future(again.wait())
    await asyncio.wait({draining, ended}, timeout=drain_s, return_when=asyncio.FIRST_COMPLETED)
    for task in (draining, ended, shown):
        task.cancel()
    await server.stop()
    return 0


async def _show(server: Server) -> None:
    """Print the stages of loading."""
    known = ""
    while True:
        if server.state.shown != known:
            known = server.state.shown
            print_state(f"{server.role!s}: {known} (port {server.port})")
        await asyncio.sleep(0.2)

"""A TCP proxy in front of a gateway that cuts a connection after a chosen number of bytes, once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any

ANSWER, REQUEST = "answer", "request"


class CuttingProxy:
    """Forwards to a port of this machine. `cut` prepares the next cut; all other bytes pass, and are counted."""

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._left: dict[str, int] = {}
        self.cuts = 0
        self.passed = {ANSWER: 0, REQUEST: 0}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self, side: str, after: int) -> None:
        """Cut the connection when `after` bytes of the next answers (or requests) have passed."""
        self._left = {side: after}

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        writers = (writer, far_writer)
        with contextlib.suppress(OSError):
            await asyncio.gather(
                self._pump(REQUEST, reader, far_writer, writers), self._pump(ANSWER, far_reader, writer, writers)
            )
        for each in writers:
            each.transport.abort()

    async def _pump(
        self,
        side: str,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        both: tuple[asyncio.StreamWriter, ...],
    ) -> None:
        while chunk := await source.read(65536):
            self.passed[side] += len(chunk)
            left = self._left.get(side)
            if left is not None and len(chunk) > left:
                self._left = {}
                self.cuts += 1
                sink.write(chunk[:left])
                with contextlib.suppress(OSError):
                    await sink.drain()
                await asyncio.sleep(0.001)  # the bytes before the cut leave
                for writer in both:
                    writer.transport.abort()
                return
            if left is not None:
                self._left[side] = left - len(chunk)
            sink.write(chunk)
            await sink.drain()
        with contextlib.suppress(OSError):
            sink.write_eof()

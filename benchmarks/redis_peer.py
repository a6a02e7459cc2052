"""The peer of the ledger's benchmark: what redis-benchmark reaches for EVALSHA of the same write size, same server."""

from __future__ import annotations

import asyncio
import csv
import io
import shutil
from dataclasses import dataclass
from pathlib import Path

from core.ledger.client import LedgerClient

KEYS = 100_000  # redis-benchmark draws the key anew for each request
CALIBRATION_REQUESTS = 500


@dataclass(frozen=True)
class PeerResult:
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


async def aof_bytes(client: LedgerClient) -> int:
    return int((await client.call("INFO", "persistence"))["aof_current_size"])


class Peer:
    """A script of `writes` write commands that together add `size` bytes to the append-only file."""

    def __init__(self, client: LedgerClient, socket: Path, *, writes: int) -> None:
        self._client = client
        self._socket = socket
        self._writes = writes
        self._value = ""
        self._sha = ""

    async def calibrate(self, size: int) -> None:
        """Choose the value so that one request writes `size` bytes, framing included."""
        calls = [f"redis.call('SET', KEYS[1] .. '{number}', ARGV[1])" for number in range(self._writes)]
        self._sha = (await self._client.call("SCRIPT", "LOAD", "\n".join(calls))).decode()
        self._value = "x"
        before = await aof_bytes(self._client)
        await self.run(clients=1, requests=CALIBRATION_REQUESTS)
        framing = (await aof_bytes(self._client) - before) / CALIBRATION_REQUESTS - self._writes
        self._value = "x" * max(1, round((size - framing) / self._writes))

    async def run(self, *, clients: int, requests: int) -> PeerResult:
        arguments = ["-s", str(self._socket), "-c", str(clients), "-n", str(requests), "-r", str(KEYS), "--csv"]
        command = ["EVALSHA", self._sha, "1", "peer:__rand_int__:", self._value]
        process = await asyncio.create_subprocess_exec(
            "redis-benchmark", *arguments, *command, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        row = list(csv.reader(io.StringIO(output.decode())))[-1]
        return PeerResult(float(row[1]), float(row[4]), float(row[5]), float(row[6]))


def available() -> bool:
    return shutil.which("redis-benchmark") is not None

"""Pages and exports of a journal with 1,000,000 entries, over HTTP, and what the new fields and indexes cost in Redis.

    python -m benchmarks.journal_pages [--entries 1000000] [--directory PATH]

A tenant makes one release; its two entries are then repeated with other release ids, and the accounts get the sums,
so the gateway seals and folds the journal like any other. Prints p50 and p95 of each page in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import redis

from core.ledger import names
from core.ledger.client import LedgerClient, connect
from core.ledger.counters import Vector
from core.ledger.embedded import socket_path

READS = 30
SEGMENTS = 20_000  # in the index of seals, as after many sealing rounds
PIPELINE = 5_000
ROUTES = ("embed/sentdp", "embed/vector", "v1/embeddings")
LEAN = {"PRIVACY_GATEWAY_TAGGER": "off", "PRIVACY_GATEWAY_INFILL": "off", "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "2"}


def lengthen(server: redis.Redis, tenant: str, entries: int, *, gap_ms: int = 50) -> None:
    """Repeat the tenant's last release until its journal has so many entries. All of its releases must be alike.

    The releases are `gap_ms` apart.
    """
    journal, record = names.journal_key(tenant), names.tenant_key(tenant)
    template: list[Any] = server.xrange(journal)[-2:]  # reserve and commit
    seq = int(server.hget(record, "seq") or 0)  # type: ignore[arg-type]
    times, before = (entries - seq) // 2, (seq - 1) // 2
    ones: dict[str, Vector] = {}
    for unit in ("sentence", "token"):
        account = names.account_key(tenant, unit)
        ones[account] = msgpack.unpackb(server.hget(account, "committed"))  # type: ignore[arg-type]
        ones[account] = tuple(value // before for value in ones[account])
    for start in range(0, times, PIPELINE):
        pipeline = server.pipeline(transaction=True)  # the accounts are the sums of the journal at every moment
        end = min(start + PIPELINE, times)
        for number in range(start, end):
            release, route = secrets.token_hex(16), ROUTES[number % len(ROUTES)]
            for _, fields in template:
                seq += 1
                own = {b"release": release, b"route": route, b"at_ms": int(fields[b"at_ms"]) + number * gap_ms}
                pipeline.xadd(journal, {**fields, **own}, id=f"{seq}-0")
        for account, one in ones.items():
            pipeline.hset(account, "committed", msgpack.packb([value * (before + end) for value in one]))
        pipeline.hset(record, "seq", seq)
        pipeline.execute()


def timed(port: int, key: str, path: str, reads: int = READS) -> tuple[list[float], bytes]:
    """The milliseconds of each read, sorted, and the last answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    times, body = [], b""
    for _ in range(reads):
        start = time.perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        body = answer.read()
        times.append((time.perf_counter() - start) * 1000)
        if answer.status != 200:
            raise RuntimeError(body.decode())
    connection.close()
    return sorted(times), body


def paths(account: str, entries: int, middle_ms: int) -> Iterator[tuple[str, str]]:
    path = f"/budget/{account}/journal?"
    yield "first page of 100", path
    yield "newest 100", f"{path}order=newest"
    yield "100 in the middle", f"{path}cursor={entries // 2}"
    yield "1,000 in the middle", f"{path}cursor={entries // 2}&limit=1000"
    yield "100 since a time", f"{path}from={middle_ms}"
    yield "newest 100 before a time", f"{path}to={middle_ms}&order=newest"
    yield "100 of one route", f"{path}route=embed/vector&cursor={entries // 2}"
    yield "a filter that finds nothing", f"{path}mechanism=nothing"


async def ranked_bytes(client: LedgerClient, subjects: int) -> float:
    """Bytes of a rank for each of so many subjects."""
    members = [item for number in range(subjects) for item in (0, f"{number:016}:{secrets.token_hex(32)}")]
    before = int((await client.call("INFO", "memory"))["used_memory"])
    await client.call("ZADD", "{rank}:ranks:sentence", *members)
    return (int((await client.call("INFO", "memory"))["used_memory"]) - before) / subjects


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
    from gateway_kit import Gateway

    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        data_dir = Path(folder) / "data"
        gateway = Gateway(data_dir, LEAN)
        try:
            tenant = gateway.tenant(epsilon=4_000_000)
            if tenant.embed(epsilon=0.001).status_code != 200:
                raise RuntimeError("the release failed")
            server = redis.Redis(unix_socket_path=str(socket_path(data_dir)))
            started = time.perf_counter()
            lengthen(server, tenant.name, arguments.entries)
            print(f"{arguments.entries:,} entries written in {time.perf_counter() - started:.0f} s")
            journal = names.journal_key(tenant.name)
            print(
                f"journal: {int(server.memory_usage(journal, samples=0) or 0) / arguments.entries:.1f} bytes an entry"
            )
            started, record = time.perf_counter(), names.tenant_key(tenant.name)
            while True:
                done = server.hmget(record, "seq", "folded", "spending_folded")
                head = server.hget(names.SEAL_HEADS_KEY, tenant.name) or b"-"  # not sealed yet
                if len({*done, head.split()[0]}) == 1:  # type: ignore[misc, union-attr]
                    break
                time.sleep(1)
            print(f"sealed and folded {time.perf_counter() - started:.0f} s later")
            step = arguments.entries // SEGMENTS
            server.zadd(
                names.segments_key(tenant.name),
                {f"{n}:{n * step + 1}:{(n + 1) * step}": (n + 1) * step for n in range(SEGMENTS)},
            )
            size = int(server.memory_usage(names.segments_key(tenant.name), samples=0) or 0)
            print(f"index of seals: {size / SEGMENTS:.0f} bytes a segment")
            middle: Any = server.xrange(journal, arguments.entries // 2, "+", count=1)
            account = f"{tenant.name}/sentence"
            print(f"{'page':<30} {'p50 ms':>8} {'p95 ms':>8} {'entries':>8}")
            for what, path in paths(account, arguments.entries, int(middle[0][1][b"at_ms"])):
                times, body = timed(gateway.port, tenant.key, path)
                p95 = times[int(0.95 * len(times))]
                print(f"{what:<30} {statistics.median(times):8.1f} {p95:8.1f} {body.count(b'sha256'):8}")
            for query in ("spending?by=key", "spending?by=route&bucket=hour", "forecast", "headroom?epsilon=1"):
                times, _ = timed(gateway.port, tenant.key, f"/budget/{account}/{query}")
                print(f"{query:<30} {statistics.median(times):8.1f} {times[int(0.95 * len(times))]:8.1f}")
            for kind in ("jsonl", "csv"):
                [took], body = timed(gateway.port, tenant.key, f"/budget/{account}/journal/export?format={kind}", 1)
                print(f"export as {kind}: {len(body) / 1e6:.0f} MB in {took / 1000:.1f} s")
            status = Path(f"/proc/{gateway.process.pid}/status").read_text()
            peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
            print(f"the gateway's largest memory: {int(peak.split()[1]) / 1024:.0f} MiB")
            asyncio.run(_memory(data_dir))
        finally:
            gateway.stop()


async def _memory(data_dir: Path) -> None:
    client = LedgerClient(connect(socket_path=socket_path(data_dir)))
    print(f"rank of a subject: {await ranked_bytes(client, 100_000):.0f} bytes")
    await client.close()


if __name__ == "__main__":
    main()

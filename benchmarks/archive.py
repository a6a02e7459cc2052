"""A journal that grows while a gateway archives it: memory of Redis, times, audits, and one flipped bit.

    python -m benchmarks.archive [--entries 1000000] [--window 50000] [--gap-ms 50] [--directory PATH]

The journal grows by a window of entries at a time (`benchmarks.journal_pages.lengthen`). The gateway seals, folds and
archives them. After each window the memory of Redis is read; meanwhile `GET /budget` is timed. Releases are `--gap-ms`
apart, so a smaller journal can span the time of a larger one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import redis

from benchmarks.journal_pages import LEAN, lengthen, timed
from core.ledger import names
from core.ledger.embedded import socket_path

KEEP, OBJECT = 20_000, 16_000  # an object has about so many entries
SETTINGS = LEAN | {
    "PRIVACY_GATEWAY_SEAL_INTERVAL_S": "1",
    "PRIVACY_GATEWAY_SERIES_INTERVAL_S": "1",
    "PRIVACY_GATEWAY_ARCHIVE": "on",
    "PRIVACY_GATEWAY_ARCHIVE_INTERVAL_S": "1",
    "PRIVACY_GATEWAY_ARCHIVE_KEEP_ENTRIES": str(KEEP),
}
GETS = 25  # in each wait for the archive


def settled(server: redis.Redis, tenant: str) -> bool:
    """Whether the journal is sealed, folded and archived as far as the settings say."""
    seq, *folded = (
        int(value or 0) for value in server.hmget(names.tenant_key(tenant), "seq", "folded", "spending_folded")
    )
    head = (server.hget(names.SEAL_HEADS_KEY, tenant) or b"0").split()
    kept = int(server.xlen(names.journal_key(tenant)))
    return int(head[0]) == seq and min(folded) == seq and kept < KEEP + 2 * OBJECT


def used_bytes(server: redis.Redis) -> int:
    return int(server.info("memory")["used_memory"])


def class_of(key: str) -> str:
    """The kind of a key: the parts of its name after the tag, without ids."""
    tag, _, rest = key.partition("}:")
    parts = rest.split(":") if rest else [tag]
    return ":".join(parts[:2] if tag == "{seals" or parts[0] in ("series", "spending") else parts[:1])


def bytes_by_class(server: redis.Redis) -> Counter[str]:
    """Bytes of the keys of each kind, the largest first."""
    sizes: Counter[str] = Counter()
    for key in server.scan_iter(count=1000):
        sizes[class_of(key.decode())] += int(server.memory_usage(key, samples=0) or 0)  # type: ignore[arg-type]
    return sizes


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def audit(data_dir: Path) -> tuple[str, int, str]:
    """Run `privacy-gateway ledger audit`. Returns the times, the exit code and the output."""
    command = [str(Path(sys.executable).parent / "privacy-gateway"), "ledger", "audit", "--data-dir", str(data_dir)]
    started, before = time.perf_counter(), os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    times = f"{time.perf_counter() - started:.0f} s, of a processor {processor:.0f} s"
    return times, done.returncode, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--window", type=int, default=50_000)
    parser.add_argument("--gap-ms", type=int, default=50)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
    from gateway_kit import Gateway

    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        data_dir = Path(folder) / "data"
        gateway = Gateway(data_dir, SETTINGS)
        try:
            tenant = gateway.tenant(epsilon=4_000_000)
            if tenant.embed(epsilon=0.001).status_code != 200:
                raise RuntimeError("the release failed")
            server = redis.Redis(unix_socket_path=str(socket_path(data_dir)))
            budget: list[float] = []
            memory: list[int] = []
            started = time.perf_counter()
            for entries in range(arguments.window, arguments.entries + 1, arguments.window):
                lengthen(server, tenant.name, entries, gap_ms=arguments.gap_ms)
                while not settled(server, tenant.name):
                    budget += timed(gateway.port, tenant.key, "/budget", GETS)[0]
                memory.append(used_bytes(server))
                print(f"{entries:>10,} entries: Redis uses {memory[-1] / 1e6:6.1f} MB", flush=True)
            print(f"written, sealed, folded and archived in {time.perf_counter() - started:.0f} s")
            print(f"memory after the first window {memory[0] / 1e6:.1f} MB, at most {max(memory) / 1e6:.1f} MB, "
                  f"at the end {memory[-1] / memory[0]:.2f} times the first")  # fmt: skip
            for kind, size in bytes_by_class(server).most_common(12):
                print(f"    {kind:<24} {size:>10,} bytes")
            print(
                f"GET /budget meanwhile: p50 {statistics.median(budget):.1f} ms, p99 {percentile(budget, 0.99):.1f} ms"
            )
            idle = timed(gateway.port, tenant.key, "/budget", 300)[0]
            print(f"GET /budget afterwards: p50 {statistics.median(idle):.1f} ms, p99 {percentile(idle, 0.99):.1f} ms")
            account = f"{tenant.name}/sentence"
            for what, path in (
                ("first 100", ""),
                ("100 in the middle", f"cursor={arguments.entries // 2}"),
                ("newest 100", "order=newest"),
                ("1,000 across the border", f"cursor={arguments.entries - KEEP - 5_500}&limit=1000"),
            ):
                times, _ = timed(gateway.port, tenant.key, f"/budget/{account}/journal?{path}", 10)
                print(f"page, {what}: p50 {statistics.median(times):.1f} ms, max {times[-1]:.1f} ms")
        finally:
            gateway.stop()
        objects = sorted((data_dir / "store/archive").glob("*/*-*"))
        size = sum(path.stat().st_size for path in objects)
        print(f"archive: {len(objects)} objects, {size / arguments.entries:.1f} bytes an entry")
        took, code, _ = audit(data_dir)
        print(f"ledger audit: exit {code} in {took}")
        middle = objects[len(objects) // 4]  # of those that were removed from Redis
        changed = bytearray(middle.read_bytes())
        changed[len(changed) // 2] ^= 1
        middle.write_bytes(bytes(changed))
        took, code, output = audit(data_dir)
        fault = next(line for line in output.splitlines() if "not the one" in line)
        print(f"one bit flipped: exit {code} in {took}: {fault.strip()}")


if __name__ == "__main__":
    main()

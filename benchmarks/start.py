"""How long a gateway needs to start, and what that costs: until it accepts connections, until every role is ready.

    python -m benchmarks.start
    python -m benchmarks.start --before ../other-checkout

Each round starts `privacy-gateway serve` of this checkout, and of another one with its own environment if `--before`
names it, in turn. The first round of each has an empty data directory; the others find what that one has kept.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
START_S_MAX = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Start:
    """Seconds from the command until connections are accepted and until every role is ready; seconds of processor time
    and megabytes of memory (each shared page counted once) of all processes, then."""

    accepts_s: float
    ready_s: float
    processor_s: float
    megabytes: float


def start_once(checkout: Path, data_dir: Path) -> Start:
    """Start a gateway, measure, and stop it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [checkout / ".venv/bin/privacy-gateway", "serve", "--port", str(port), "--data-dir", data_dir]
    log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=checkout, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        accepts_s = _until(lambda: _answers(port, "livez") is not None, began)
        ready_s = _until(lambda: _every_role_is_ready(port), began)
        return Start(accepts_s, ready_s, *_cost(process.pid))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        log.close()


def _until(condition: Callable[[], bool], began: float) -> float:
    while not condition():
        if time.monotonic() - began > START_S_MAX:
            raise RuntimeError("the gateway does not start")
        time.sleep(0.05)
    return time.monotonic() - began


def _answers(port: int, page: str) -> bytes | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=30) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return error.read()
    except OSError:
        return None


def _every_role_is_ready(port: int) -> bool:
    workers = json.loads(_answers(port, "readyz") or b"{}").get("workers", {})
    return len(workers) >= 3 and all(stage == "ready" for stage in workers.values())


def _cost(pid: int) -> tuple[float, float]:
    """Processor time in seconds and memory in megabytes of a process and its descendants."""
    seconds = kilobytes = 0.0
    for each in (pid, *_descendants(pid)):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
        except OSError:
            continue
        seconds += (int(fields[11]) + int(fields[12])) / _TICKS
        kilobytes += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return seconds, kilobytes / 1024


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_descendants(child)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of another version, with its .venv")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    checkouts = {"this checkout": ROOT} | ({"before": given.before.resolve()} if given.before else {})
    with tempfile.TemporaryDirectory() as folder:
        starts: dict[str, list[Start]] = {name: [] for name in checkouts}
        for _ in range(1 + given.rounds):
            for name, checkout in checkouts.items():
                starts[name].append(start_once(checkout, Path(folder) / name.replace(" ", "-")))
    print("| version | start | accepts, s | every role ready, s | processor time, s | memory, MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (first, *others) in starts.items():
        _print(name, "first", [first])
        _print(name, f"later, median of {len(others)} (range)", others)
    print("load average", *os.getloadavg())


def _print(name: str, which: str, starts: list[Start]) -> None:
    cells = []
    for values in zip(*([s.accepts_s, s.ready_s, s.processor_s, s.megabytes] for s in starts), strict=True):
        spread = f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else ""
        cells.append(f"{statistics.median(values):.1f}{spread}")
    print(f"| {name} | {which} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

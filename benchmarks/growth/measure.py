"""Processor time and memory of one call, in a process of its own, and how they grow with the size of its input."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

MEMORY_BYTES_MAX = 1 << 30  # five times what one request may take
Call = Callable[[], object]


class Cost(NamedTuple):
    """The least processor seconds of some calls, and the most bytes of memory that one took above those before it.

    outcome: the class of the error that it raised, `time` or `memory` if a limit ended it, else empty.
    """

    seconds: float
    peak_bytes: int
    outcome: str = ""


def measure(prepare: Callable[[], Call], *, limit_s: float, repeats: int = 3) -> Cost:
    """Run what `prepare` returns in a fork of this process, which is ended after `limit_s` seconds of a processor."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        os.close(readable)
        try:
            found = _measured(prepare, limit_s, repeats)
            os.write(writable, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as answer:
        content = answer.read()
    _, status = os.waitpid(child, 0)
    if content:
        return Cost(*json.loads(content))
    return Cost(limit_s, 0, "time" if os.WTERMSIG(status) == signal.SIGXCPU else "memory")


def _measured(prepare: Callable[[], Call], limit_s: float, repeats: int) -> Cost:
    call = prepare()
    used_s = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used_s + limit_s), math.ceil(used_s + limit_s) + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    best, outcome = math.inf, ""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    for _ in range(repeats):
        began = time.process_time()
        try:
            call()
        except MemoryError:
            return Cost(time.process_time() - began, MEMORY_BYTES_MAX, "memory")
        except Exception as error:  # a refusal is an answer as well
            outcome = type(error).__name__
        best = min(best, time.process_time() - began)
        if best > limit_s / 10:
            break  # long enough to be exact
    return Cost(best, max(0, _status("VmHWM") - before), outcome)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The slope of the values against the sizes, both in logarithms, by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(value) for value in values]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)

"""How the processor time and memory of each stage that reads a tenant's text grow with the text.

    nice python -m benchmarks.growth [--stage PART ...] [--unit NAME ...] [--all] [--sizes N ...]

Each stage of `benchmarks/growth/stages.py` reads texts of one unit again and again, of doubling sizes, each in a fork
of this process with a limit of time and memory. The exponent is the slope of the logarithm of the cost against that of
the size: 1 is linear. Only what exceeds a bar is shown: an exponent of `--exponent` (1.1), more than `--microseconds` a
character, more than `--bytes` of memory a character, a limit, or an error that is no refusal. `--all` shows everything.

    nice python -m benchmarks.growth.over_http

sends such bodies to a gateway.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.growth.measure import Cost, exponent, measure
from benchmarks.growth.stages import Stage, stages, warm_up
from benchmarks.growth.units import repeated

SIZES = (16_000, 32_000, 64_000, 128_000, 256_000)
LIMIT_S = 20.0
# Below these, a measurement is noise: of the clock, and of the allocator.
SECONDS_MIN = 0.02
BYTES_MIN = 16 << 20
REFUSALS = frozenset(
    {"", "InvalidInput", "ValidationError", "HTTPException", "JSONDecodeError", "PydanticCustomError", "TaskFailed"}
)


class Growth(NamedTuple):
    """What a stage costs with a unit, at its largest size."""

    stage: str
    unit: str
    size: int
    cost: Cost
    time_exponent: float | None
    memory_exponent: float | None

    @property
    def microseconds(self) -> float:
        return self.cost.seconds * 1e6 / self.size

    @property
    def bytes(self) -> float:
        return self.cost.peak_bytes / self.size


def growth(stage: Stage, unit: str, sizes: Sequence[int], limit_s: float) -> Growth:
    costs: list[Cost] = []
    for size in sizes:
        costs.append(measure(stage.prepare(repeated(stage.units[unit], size)), limit_s=limit_s))
        if costs[-1].outcome in ("time", "memory"):
            break
    used = sizes[: len(costs)]
    times = [(size, cost.seconds) for size, cost in zip(used, costs, strict=True) if cost.seconds >= SECONDS_MIN]
    peaks = [(size, cost.peak_bytes) for size, cost in zip(used, costs, strict=True) if cost.peak_bytes >= BYTES_MIN]
    return Growth(stage.name, unit, used[-1], costs[-1], _slope(times[-3:]), _slope(peaks[-3:]))


def _slope(points: Sequence[tuple[int, float]]) -> float | None:
    return exponent(*zip(*points, strict=True)) if len(points) > 1 else None  # type: ignore[arg-type]


def row(found: Growth) -> str:
    time_exponent, memory_exponent = (
        "" if each is None else f"{each:.2f}" for each in (found.time_exponent, found.memory_exponent)
    )
    return (
        f"| {found.stage} | {found.unit!a} | {found.size:,} | {found.cost.seconds:.3f} | {time_exponent} "
        f"| {found.microseconds:.2f} | {memory_exponent} | {found.bytes:.0f} | {found.cost.outcome} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", nargs="*", default=[""], help="parts of names")
    parser.add_argument("--unit", nargs="*", help="names")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="characters, rising")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S)
    parser.add_argument("--exponent", type=float, default=1.1)
    parser.add_argument("--microseconds", type=float, default=10.0, help="a character")
    parser.add_argument("--bytes", type=float, default=400.0, help="a character")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    warm_up()
    began, count, shown = time.monotonic(), 0, 0
    print("| stage | unit | characters | s | exponent | µs a character | of memory | bytes a character | outcome |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for stage in stages():
        if not any(part in stage.name for part in options.stage):
            continue
        for unit in options.unit or stage.units:
            if unit not in stage.units:
                continue
            count += 1
            found = growth(stage, unit, [options.sizes[-3], options.sizes[-1]], options.limit_s)
            if _exceeds(found, options) and found.cost.outcome not in ("time", "memory"):
                found = growth(stage, unit, options.sizes, options.limit_s)
            if options.all or _exceeds(found, options):
                shown += 1
                print(row(found), flush=True)
    print(f"\n{shown} of {count} texts exceed a bar; {time.monotonic() - began:.0f} s")


def _exceeds(found: Growth, options: argparse.Namespace) -> bool:
    exponents = [each for each in (found.time_exponent, found.memory_exponent) if each is not None]
    return (
        max(exponents, default=0.0) > options.exponent
        or found.microseconds > options.microseconds
        or found.bytes > options.bytes
        or found.cost.outcome not in REFUSALS
    )


if __name__ == "__main__":
    main()

"""What one tenant's attack costs everybody: worst `/livez`, a victim's latencies, memory of every process.

    python -m benchmarks.attacks [--only PART ...] [--seconds S] [--connections N] [--list]

For each row, a gateway of its own runs on its defaults, with a stub as language model. One request of the attack is
sent alone; then victims send short requests at a steady rate, first while the gateway is quiet and then beside the
attack, which `--connections` connections of one other tenant send without a pause from a process of their own. A row
passes if

* the worst answer of `/livez` beside the attack takes at most 250 ms,
* each victim's p99 is at most 3 times that when the gateway is quiet, plus one batch of the largest size,
* half a minute after the attack no process has more than 1.2 times the memory of before (or 20 MB more),
* one request takes at most 200 MB in all processes.
"""

import contextlib
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from gateway_kit import Gateway, Tenant, children

from benchmarks.attacks.load import SHORT, Connection, Probe, attacked, batch_seconds, memory
from benchmarks.attacks.rows import CLAUDE, MODEL, Attack, Sent, attacks, chat, document, posted
from benchmarks.kit import arguments, head, percentile, row, running
from benchmarks.proxy_latency import server
from core.memory import TRIM_INTERVAL_S

MB = 1_000_000
LIVEZ_MS_MAX = 250.0
QUIET_FACTOR, MEMORY_FACTOR = 3, 1.2
MEMORY_NOISE = 20 * MB
REQUEST_BYTES_MAX = 200 * MB
RATE = 4.0  # requests a second of each victim
SETTLE_S = 3.0
VICTIMS: Mapping[str, Sent] = {
    "sentdp": posted("/embed/sentdp", SHORT),
    "sanitize": document("text", "Maria Keller of Lisbon, maria.keller@example.org, asked about her parcel."),
    "chat": chat("Please answer Maria Keller, maria.keller@example.org, about her parcel."),
}


class Result(NamedTuple):
    """Milliseconds, bytes. quiet, beside: the p99 of each victim. grown: memory after / before of the worst process."""

    livez_ms: float
    quiet: Mapping[str, float]
    beside: Mapping[str, float]
    batch_ms: float
    request_bytes: int
    grown: float
    answers: Mapping[str, int]
    errors: Mapping[str, int]

    def faults(self) -> list[str]:
        """What misses its bar."""
        late = [name for name in self.quiet if self.beside[name] > QUIET_FACTOR * self.quiet[name] + self.batch_ms]
        return [
            *(["livez"] if self.livez_ms > LIVEZ_MS_MAX else []),
            *late,
            *(["memory"] if self.grown > MEMORY_FACTOR else []),
            *(["request"] if self.request_bytes > REQUEST_BYTES_MAX else []),
            *(["errors"] if self.errors else []),
        ]


def latencies(port: int, victims: Mapping[str, Tenant], seconds: float) -> tuple[dict[str, list[float]], Counter[str]]:
    """Seconds of each victim's requests, sent at a steady rate whether or not earlier ones have been answered."""
    found: dict[str, list[float]] = {name: [] for name in victims}
    errors: Counter[str] = Counter()

    def one(name: str, due: float) -> None:
        connection = Connection(port, victims[name].key)  # the gateway closes idle connections
        status = connection.send(VICTIMS[name])
        found[name].append(time.perf_counter() - due)
        if status != "200":
            errors[f"{name} {status}"] += 1

    start = time.perf_counter()
    with ThreadPoolExecutor(64) as pool:
        for number in range(int(seconds * RATE)):
            due = start + number / RATE
            time.sleep(max(0.0, due - time.perf_counter()))
            for name in victims:
                pool.submit(one, name, due)
    return found, errors


def processes(gateway: Gateway) -> dict[int, str]:
    """The front end and the workers. Redis grows by what is stored, which is no request's memory."""
    found = {gateway.process.pid: "front end", **children(gateway.process.pid)}
    return {pid: line for pid, line in found.items() if line and "redis" not in line}


def resident(gateway: Gateway) -> dict[int, int]:
    found: dict[int, int] = {}
    for pid in processes(gateway):
        with contextlib.suppress(OSError, TypeError):
            found[pid] = memory(pid, "VmRSS")
    return found


def request_bytes(gateway: Gateway, attacker: Tenant, sent: Sent) -> int:
    """The memory that one request takes in all processes together."""
    before = resident(gateway)
    for pid in before:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
    Connection(gateway.port, attacker.key).send(sent)
    taken = 0
    for pid, start in before.items():
        with contextlib.suppress(OSError, TypeError):
            taken += max(0, memory(pid, "VmHWM") - start)
    return taken


def growth(before: Mapping[int, int], after: Mapping[int, int]) -> list[float]:
    """Memory after / before, of each process that has grown."""
    return [after[pid] / size for pid, size in before.items() if pid in after and after[pid] - size > MEMORY_NOISE]


def measured(gateway: Gateway, attack: Attack, *, seconds: float, connections: int) -> Result:
    victims = {name: gateway.tenant(epsilon=1e6) for name in VICTIMS}
    attacker = gateway.tenant(epsilon=1e6)
    if attack.before:
        attack.before(gateway, attacker)
    requests = attack.requests(attacker)
    latencies(gateway.port, victims, 2)  # warms up
    batch_ms = batch_seconds(gateway, victims["sentdp"]) * 1000
    quiet, _ = latencies(gateway.port, victims, seconds)
    taken = request_bytes(gateway, attacker, requests[0])
    time.sleep(SETTLE_S)
    before = resident(gateway)
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    ours, theirs = spawn.Pipe()
    number = attack.connections or connections
    process = spawn.Process(target=attacked, args=(gateway.port, attacker.key, number, requests, stop, theirs))
    process.start()
    try:
        time.sleep(SETTLE_S)
        with Probe(gateway.port) as probe:
            beside, errors = latencies(gateway.port, victims, seconds)
        stop.set()
        answers = ours.recv()
    finally:
        process.kill()
        process.join()
    time.sleep(SETTLE_S)
    if grew := growth(before, resident(gateway)):
        time.sleep(TRIM_INTERVAL_S + 1)  # after which a gateway has given back what it has freed
        grew = growth(before, resident(gateway))
    return Result(
        probe.worst_s * 1000,
        {name: percentile(each, 0.99) * 1000 for name, each in quiet.items()},
        {name: percentile(each, 0.99) * 1000 for name, each in beside.items()},
        batch_ms,
        taken,
        max(grew, default=1.0),
        answers,
        errors,
    )


def shown(attack: Attack, found: Result) -> None:
    row(
        attack.name,
        f"{found.livez_ms:.0f}",
        *(f"{found.beside[name]:.0f} / {QUIET_FACTOR * found.quiet[name] + found.batch_ms:.0f}" for name in VICTIMS),
        f"{found.request_bytes / MB:.0f}",
        f"{found.grown:.2f}",
        ", ".join(f"{count} x {status}" for status, count in sorted(found.answers.items())),
        dict(found.errors) or "",
        ", ".join(found.faults()) or "held",
    )


@contextlib.contextmanager
def with_models() -> Iterator[Gateway]:
    """A gateway in front of a stub of both kinds of language models."""
    with server("stub") as stub:
        address = f"http://127.0.0.1:{stub}/v1"
        upstreams = {
            "stub": {"base_url": address, "models": [MODEL], "kind": "openai"},
            "other": {"base_url": address, "models": [CLAUDE], "kind": "anthropic"},
        }
        with running({"PRIVACY_GATEWAY_UPSTREAMS": json.dumps(upstreams)}) as gateway:
            yield gateway


def main() -> None:
    options = arguments(
        __doc__, only=([""], "parts of names"), seconds=20.0, connections=32, list=(False, "show the names")
    )
    chosen: Sequence[Attack] = [each for each in attacks() if any(part in each.name for part in options.only)]
    if options.list:
        print("\n".join(each.name for each in chosen))
        return
    bars = (f"{name} p99 / bar ms" for name in VICTIMS)
    costs = ("request MB", "memory after / before", "answers", "errors of victims", "misses")
    head("attack", "/livez ms", *bars, *costs)
    missed = 0
    for attack in chosen:
        with with_models() as gateway:
            try:
                found = measured(gateway, attack, seconds=options.seconds, connections=options.connections)
            except (OSError, RuntimeError, AssertionError) as error:
                row(attack.name, f"{type(error).__name__}: the gateway did not serve")
                missed += 1
                continue
        missed += bool(found.faults())
        shown(attack, found)
    print(f"\n{len(chosen) - missed} of {len(chosen)} held")


if __name__ == "__main__":
    main()

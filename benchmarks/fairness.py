"""Latency of one tenant's short `POST /embed/sentdp` while other tenants send the largest legal requests.

    python -m benchmarks.fairness

Starts a gateway of its own on its defaults. A victim sends a short document at a steady rate; its latencies when the
gateway is quiet are compared with those under each attack, by 64 clients of one tenant or of several. The attackers are
a process of their own, on the same machine. `one batch` is the time in the worker of a batch of the largest size.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
from gateway_kit import Gateway, Tenant

SENTENCE = "The committee will meet again on Thursday to discuss the proposal of the two members who were late. "
MEGABYTE = (SENTENCE * 11_000)[:1_000_000]
SHORT = {"documents": [{"text": "The parcel has arrived. It was not damaged. Thank you."}], "epsilon": 1.0}
SLOW_PLAN = {"kind": "subsampled_gaussian", "sampling_rate": 0.5, "noise_multiplier": 1.0}
BATCH_TOKENS = 4096
IDLE_S = 3.0  # a connection that was idle for longer is not used again: the gateway closes idle ones
UNKNOWN_WORDS = {"text": "zqxv, " * 2000}
FILLS = {"documents": [UNKNOWN_WORDS] * 16, "mask": {"techniques": ["vocabulary"]}, "fill": {"mode": "top1"}}

Attack = list[tuple[str, dict[str, Any] | bytes]]


def sentdp(documents: int, characters: int) -> tuple[str, dict[str, Any]]:
    return "/embed/sentdp", {"documents": [{"text": MEGABYTE[:characters]}] * documents, "epsilon": 0.01}


def sentdp_of(text: str) -> tuple[str, dict[str, Any]]:
    return "/embed/sentdp", {"documents": [{"text": text}], "epsilon": 0.01}


def attacks() -> dict[str, Attack]:
    """The requests that the attacking clients send in turn."""
    numbers = random.Random(1)
    rows = [[round(numbers.gauss(0, 0.05), 6) for _ in range(384)] for _ in range(1800)]
    wide = [
        {"vectors": [[0.1] * n], "mechanism": "codebook", "dimension": n, "epsilon": 10.0} for n in range(1024, 992, -1)
    ]
    deep = [{"vectors": [[0.1] * n], "dimension": 1024, "epsilon": 0.01} for n in range(4096, 4064, -1)]
    lines = b"\n".join(json.dumps({"text": MEGABYTE[:100_000]}).encode() for _ in range(200))
    found: dict[str, Attack] = {
        "sanitize, 1 MB": [("/sanitize", {"documents": [{"text": MEGABYTE}] * 2})],
        "sentdp, 256 documents": [sentdp(256, 2400)],
        "sentdp, documents of 200 kB": [sentdp(4, 200_000)],
        "vector, 1,800 rows": [("/embed/vector", {"vectors": rows, "epsilon": 0.01})],
        "vector, 2,048 texts": [("/embed/vector", {"texts": [SENTENCE * 10] * 2048, "epsilon": 0.01})],
        "vector, new codebooks and projections": [("/embed/vector", body) for body in (*wide, *deep)],
        "compare": [("/accounting/compare", {"mechanism": SLOW_PLAN, "steps": 10**7, "delta": 1e-5})],
        "calibrate": [("/accounting/calibrate", {"target": {"epsilon": 1.0, "delta": 1e-6}, "steps": 50_000})],
        "stream": [("/sanitize/batch", lines)],
        "sentdp, one sentence": [sentdp_of("\u6f22" * 900_000)],
        "sentdp, open quotes": [sentdp_of("\u201c" * 250_000)],
        "sanitize, dense text": [("/sanitize", {"documents": [{"text": "\u6f22\u5b57 " * 330_000}]})],
        "sanitize, colons": [("/sanitize", {"documents": [{"text": "::," * 23_000}]})],
        "sanitize, fills by the model": [("/sanitize", FILLS)],
    }
    return found | {"all of these": [request for requests in found.values() for request in requests]}


def send(connection: http.client.HTTPConnection, key: str, path: str, body: bytes) -> str:
    """The status of the answer, and of a refusal the limit that it names."""
    media = "application/x-ndjson" if path.endswith("/batch") else "application/json"
    connection.request("POST", path, body, {"Authorization": f"Bearer {key}", "Content-Type": media})
    answer = connection.getresponse()
    content = answer.read()
    limit = json.loads(content).get("limit", "") if answer.status == 429 else ""
    return f"{answer.status} {limit}".strip()


def attack(port: int, keys: list[str], clients: int, requests: Attack, stop: Event, report: Any) -> None:
    """Send `requests` from `clients` connections until `stop` is set. Runs in a process of its own."""
    os.nice(5)  # the load generator gives way to the gateway, as it would on another machine
    bodies = [(path, body if isinstance(body, bytes) else json.dumps(body).encode()) for path, body in requests]
    statuses: Counter[str] = Counter()

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        turn = number
        while not stop.is_set():
            path, body = bodies[turn % len(bodies)]
            turn += 1
            try:
                status = send(connection, keys[number % len(keys)], path, body)
            except (OSError, http.client.HTTPException) as error:
                status = type(error).__name__
                connection.close()
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            statuses[status] += 1
            if status != "200":
                time.sleep(0.1)  # a client that does not wait at all measures the HTTP server and not the queues

    for number in range(clients):
        threading.Thread(target=client, args=(number,), daemon=True).start()
    stop.wait()
    report.send(dict(statuses))


def latencies(gateway: Gateway, victim: Tenant, *, seconds: float, rate: float) -> tuple[list[float], Counter[str]]:
    """Seconds of each request, sent at a steady rate whether or not earlier ones have been answered."""
    body = json.dumps(SHORT).encode()
    found: list[float] = []
    errors: Counter[str] = Counter()
    local = threading.local()

    def one(due: float) -> None:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
        elif time.perf_counter() - local.used > IDLE_S:
            local.connection.close()  # the next request opens a new one
        try:
            status = send(local.connection, victim.key, "/embed/sentdp", body)
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
            local.connection.close()
        local.used = time.perf_counter()
        found.append(time.perf_counter() - due)
        if status != "200":
            errors[status] += 1

    start = time.perf_counter()
    with ThreadPoolExecutor(64) as pool:
        for number in range(int(seconds * rate)):
            due = start + number / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            pool.submit(one, due)
    return found, errors


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] * 1000


def batch_seconds(gateway: Gateway, tenant: Tenant) -> float:
    """The mean time of a batch of the largest size, in the embed worker."""

    def total() -> tuple[float, float]:
        page = gateway.client(None).get("/metrics").text
        found = [re.search(rf'gateway_batch_seconds_{name}{{role="embed"}} (\S+)', page) for name in ("sum", "count")]
        seconds, count = (float(match.group(1)) if match else 0.0 for match in found)
        return seconds, count

    before = total()
    for _ in range(8):
        answer = tenant.embed([{"text": MEGABYTE[: BATCH_TOKENS * 7 // 2]}])
        assert answer.status_code == 200, answer.text
    after = total()
    return (after[0] - before[0]) / (after[1] - before[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--tenants", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--attack", nargs="*", help="names, or parts of names, of the attacks to run")
    options = parser.parse_args()
    chosen = {
        name: requests
        for name, requests in attacks().items()
        if not options.attack or any(part in name for part in options.attack)
    }
    spawn = multiprocessing.get_context("spawn")
    print("| attack | tenants | p50 ms | p99 ms | errors | quiet p99 ms | one batch ms | limit ms | answers |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, requests in chosen.items():
        for tenants in options.tenants:
            with tempfile.TemporaryDirectory() as folder:
                gateway = Gateway(Path(folder) / "data")
                try:
                    victim = gateway.tenant(epsilon=1e6)
                    attackers = [gateway.tenant(epsilon=4e6) for _ in range(tenants)]
                    victim.embed()
                    batch_ms = batch_seconds(gateway, victim) * 1000
                    quiet, _ = latencies(gateway, victim, seconds=options.seconds / 2, rate=options.rate)
                    stop = spawn.Event()
                    ours, theirs = spawn.Pipe()
                    keys = [tenant.key for tenant in attackers]
                    process = spawn.Process(
                        target=attack, args=(gateway.port, keys, options.clients, requests, stop, theirs)
                    )
                    process.start()
                    time.sleep(5)
                    found, errors = latencies(gateway, victim, seconds=options.seconds, rate=options.rate)
                    stop.set()
                    answers = ours.recv()
                    process.kill()
                    process.join()
                finally:
                    gateway.stop()
            limit = 3 * percentile(quiet, 0.99) + batch_ms
            print(
                f"| {name} | {tenants} | {percentile(found, 0.5):.0f} | {percentile(found, 0.99):.0f} | "
                f"{dict(errors) or 0} | {percentile(quiet, 0.99):.0f} | {batch_ms:.0f} | {limit:.0f} | {answers} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

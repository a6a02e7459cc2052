"""What traces cost: two gateways side by side, one that exports spans to a collector and one that does not.

    python -m benchmarks.tracing [--requests 2000]

Blocks of requests alternate between the two, so that the load of the machine is the same for both. Prints the median
and the 95th percentile of a short `POST /embed/sentdp` and of `GET /budget`, in ms, and the processor time of the front
end for each request.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
from collector_kit import Collector
from gateway_kit import LEAN, Gateway, Tenant, cpu_ticks

BLOCK = 50
WARM_UP = 100
TEXT = "The new phone arrived on Monday."


def embed(tenant: Tenant) -> httpx.Response:
    return tenant.http.post("/embed/sentdp", json={"documents": [{"text": TEXT}], "epsilon": 0.001})


def budget(tenant: Tenant) -> httpx.Response:
    return tenant.http.get("/budget")


CALLS: dict[str, Callable[[Tenant], httpx.Response]] = {"POST /embed/sentdp": embed, "GET /budget": budget}


def measure(gateways: dict[str, Gateway], call: Callable[[Tenant], httpx.Response], requests: int) -> None:
    tenants = {name: gateway.tenant(epsilon=1_000_000) for name, gateway in gateways.items()}
    for tenant in tenants.values():
        for _ in range(WARM_UP):
            call(tenant).raise_for_status()
    times: dict[str, list[float]] = {name: [] for name in gateways}
    ticks = dict.fromkeys(gateways, 0)
    for block in range(2 * requests // BLOCK):
        name = list(gateways)[block % 2]
        before = cpu_ticks(gateways[name].process.pid)
        for _ in range(BLOCK):
            started = time.perf_counter()
            call(tenants[name]).raise_for_status()
            times[name].append((time.perf_counter() - started) * 1000)
        ticks[name] += cpu_ticks(gateways[name].process.pid) - before
    for name, found in times.items():
        cpu_ms = ticks[name] * 1000 / os.sysconf("SC_CLK_TCK") / len(found)
        p95 = statistics.quantiles(found, n=20)[-1]
        print(f"  {name:<16} p50 {statistics.median(found):6.2f}  p95 {p95:6.2f}  front end {cpu_ms:5.2f} ms CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="of each gateway and each kind")
    requests = parser.parse_args().requests
    with tempfile.TemporaryDirectory() as folder, Collector() as collector:
        lean = LEAN | {"PRIVACY_GATEWAY_EPSILON_MIN": "0.001"}
        traced = lean | {"PRIVACY_GATEWAY_TRACES_ENDPOINT": collector.endpoint}
        gateways = {
            "without traces": Gateway(Path(folder) / "without", lean),
            "with traces": Gateway(Path(folder) / "with", traced),
        }
        try:
            for name, call in CALLS.items():
                print(name)
                measure(gateways, call, requests)
        finally:
            for gateway in gateways.values():
                gateway.stop()
        print(f"spans exported: {len(collector.spans)}")


if __name__ == "__main__":
    main()

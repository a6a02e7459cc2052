"""What the Python client adds to raw httpx, in the same run against the same gateway.

Small calls embed one document each. The rounds alternate, so that both see the same machine.

    python -m benchmarks.client_overhead            # starts a gateway
    python -m benchmarks.client_overhead --calls 200 --vectors 20000
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
from safetensors.numpy import load, save

from privacy_gateway_client import Gateway as Client
from privacy_gateway_client import Limits

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
from gateway_kit import LEAN, Gateway, Tenant

HEADER_BYTES = 1 << 16  # that the client leaves for the header of a file
STORAGE = {"PRIVACY_GATEWAY_STORED_BYTES_PER_TENANT_MAX": str(4 << 30)}  # for the answers of all rounds
TEXT = "The screen is sharp. The battery is weak."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=9, help="of the calls with vectors")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        running = Gateway(Path(folder) / "data", LEAN | STORAGE)
        try:
            measure(running, running.tenant(epsilon=4_000_000.0), asked)
        finally:
            running.stop()
    imports()


def measure(running: Gateway, tenant: Tenant, asked: argparse.Namespace) -> None:
    with (
        Client(running.url, tenant.key) as client,
        httpx.Client(base_url=running.url, headers=tenant.http.headers) as raw,
    ):
        small(client, raw, asked.calls)
    files(running, tenant, asked.vectors, asked.repeats)


def small(client: Client, raw: httpx.Client, calls: int) -> None:
    """Embeddings of one short document."""
    body = {"documents": [{"text": TEXT}], "epsilon": 0.01, "encoding_format": "base64"}

    def by_httpx() -> None:
        raw.post("/embed/sentdp", json=body).raise_for_status().json()

    def by_client() -> None:
        client.embed_documents([TEXT], epsilon=0.01)

    report(f"{calls} calls with one document", by_httpx, by_client, calls)


def files(running: Gateway, tenant: Tenant, count: int, repeats: int) -> None:
    """Vectors of 64 dimensions: as one file, whose answer is not stored, and in the client's default parts, which are.

    httpx sends the same requests as the client: the same files, with keys, as many at the same time.
    """
    vectors = np.random.default_rng(0).standard_normal((count, 64), dtype=np.float32)
    asked = json.dumps({"epsilon": 0.01, "dimension": 64})
    whole = Limits(stored_bytes=256 << 20)
    part_rows = (Limits.stored_bytes - HEADER_BYTES) // (4 * 64)
    with (
        Client(running.url, tenant.key) as in_parts,
        Client(running.url, tenant.key, limits=whole) as in_one,
        httpx.Client(base_url=running.url, headers=tenant.http.headers, timeout=120) as raw,
        ThreadPoolExecutor(Limits.concurrency) as pool,
    ):

        def sent(part: np.ndarray) -> np.ndarray:
            headers = {"Content-Type": "application/vnd.safetensors", "Idempotency-Key": uuid.uuid4().hex}
            content = save({"vectors": part}, metadata={"request": asked})
            answer = raw.post("/embed/vector/safetensors", content=content, headers=headers).raise_for_status()
            return load(answer.content)["embeddings"]

        def one_by_httpx() -> None:
            sent(vectors)

        def parts_by_httpx() -> None:
            parts = [vectors[start : start + part_rows] for start in range(0, count, part_rows)]
            np.concatenate(list(pool.map(sent, parts)))

        def one_by_client() -> None:
            in_one.embed_vectors(vectors, epsilon=0.01, dimension=64)

        def parts_by_client() -> None:
            in_parts.embed_vectors(vectors, epsilon=0.01, dimension=64)

        report(f"{count} vectors in one file", one_by_httpx, one_by_client, repeats)
        report(f"{count} vectors in parts of {part_rows}", parts_by_httpx, parts_by_client, repeats)


def report(name: str, by_httpx: Callable[[], None], by_client: Callable[[], None], times: int) -> None:
    """The medians of both, and what the client adds."""
    found: dict[str, list[float]] = {"httpx": [], "client": []}
    for warm in (True, False):
        for _ in range(min(times, 3) if warm else times):
            for label, act in (("httpx", by_httpx), ("client", by_client)):
                started = time.perf_counter()
                act()
                if not warm:
                    found[label].append(time.perf_counter() - started)
    raw_s, client_s = (statistics.median(found[label]) for label in ("httpx", "client"))
    print(
        f"{name}: httpx {1000 * raw_s:.2f} ms, client {1000 * client_s:.2f} ms, {100 * (client_s / raw_s - 1):+.1f} %"
    )


def imports() -> None:
    """The least of several starts of Python."""
    least = {
        code: min(_timed(code) for _ in range(7)) for code in ("import httpx", "import httpx, privacy_gateway_client")
    }
    first, second = least.values()
    added = 1000 * (second - first)
    print(f"import: httpx {1000 * first:.0f} ms, with the client {1000 * second:.0f} ms, {added:+.0f} ms")


def _timed(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()

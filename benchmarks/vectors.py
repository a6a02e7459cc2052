"""Private vectors: the mechanism alone, and `POST /embed/vector/safetensors` end to end, against bare NumPy in one run.

    python -m benchmarks.vectors --rows 100000 --dimension 384

The peer multiplies by the same matrix in float32 and adds Gaussian noise of NumPy's default generator, with as many
threads as it likes. The gateway runs on its embedded defaults (fsync on every ledger write); the client sends the file
from memory and reads the answer into memory. The three take turns; ratios are of medians of the peer's time to theirs.
Where the time of a request goes is read off the gateway's own `/metrics`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from core.mechanisms.vectors.projection import spec_projection
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.spec import vector_spec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
from gateway_kit import Gateway, Tenant

EPSILON = 10.0
_STAGES = ("receive", "check", "reserve", "run", "commit")


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def unit_rows(rows: int, dimension: int) -> npt.NDArray[np.float32]:
    vectors = np.random.default_rng(0).standard_normal((rows, dimension), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


class Client:
    """Sends the same file again and again, over a new connection each time."""

    def __init__(self, gateway: Gateway, tenant: Tenant, content: bytes, answer_bytes: int) -> None:
        self._gateway = gateway
        self._headers = {"Authorization": f"Bearer {tenant.key}", "Content-Type": "application/vnd.safetensors"}
        self._content = content
        self._answer = bytearray(answer_bytes + (1 << 16))

    def send(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._gateway.port, timeout=300)
        connection.request("POST", "/embed/vector/safetensors", self._content, self._headers)
        answer = connection.getresponse()
        view = memoryview(self._answer)
        while read := answer.readinto(view):
            view = view[read:]
        if answer.status != 200:
            raise RuntimeError(bytes(self._answer[:2000]).decode())
        connection.close()


def stages(gateway: Gateway) -> dict[str, float]:
    """Seconds spent in each stage so far, and in the worker."""
    found = {}
    for line in httpx.get(f"{gateway.url}/metrics").text.splitlines():
        name, _, value = line.rpartition(" ")
        for stage in _STAGES:
            if name.startswith("gateway_stage_seconds_sum") and f'"{stage}"' in name:
                found[stage] = float(value)
        if name.startswith("gateway_batch_seconds_sum") and '"embed"' in name:
            found["worker"] = float(value)
    return found


def measure(
    gateway: Gateway, vectors: npt.NDArray[np.float32], *, output_dimension: int, dtype: str, repeats: int
) -> dict[str, object]:
    rows, dimension = vectors.shape
    tenant = gateway.tenant(epsilon=4_000_000)
    spec = vector_spec(mechanism="privemb", dimension=dimension, epsilon=EPSILON, output_dimension=output_dimension)
    projection = spec_projection(spec, tenant=tenant.name)
    if projection is None:
        raise RuntimeError("privemb projects")
    mechanism = vector_mechanism(spec, projection)
    matrix = np.ascontiguousarray(projection.matrix.T)
    generator = np.random.default_rng()

    def peer() -> object:
        return vectors @ matrix + generator.standard_normal((rows, output_dimension), dtype=np.float32)

    params = {"epsilon": EPSILON * 1e-3, "dimension": output_dimension, "output_dtype": dtype}
    content = save({"vectors": vectors.astype(dtype)}, metadata={"request": json.dumps(params)})
    client = Client(gateway, tenant, content, rows * output_dimension * np.dtype(dtype).itemsize)
    sides: dict[str, Callable[[], object]] = {
        "numpy": peer,
        "mechanism": lambda: mechanism.release(vectors),
        "http": client.send,
    }
    for side in sides.values():
        side()
    before = stages(gateway)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            seconds[name].append(timed(side))
    after = stages(gateway)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "output_dimension": output_dimension,
        "dtype": dtype,
        "seconds": {name: round(value, 3) for name, value in medians.items()},
        "ratio": {name: round(medians["numpy"] / medians[name], 3) for name in ("mechanism", "http")},
        "stages_mean": {name: round((after[name] - before.get(name, 0.0)) / repeats, 3) for name in after},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--output-dimensions", type=int, nargs="+", default=[64, 384])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    vectors = unit_rows(args.rows, args.dimension)
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(Path(folder) / "data")
        try:
            for output_dimension in args.output_dimensions:
                for dtype in ("float32", "float16"):
                    found = measure(
                        gateway, vectors, output_dimension=output_dimension, dtype=dtype, repeats=args.repeats
                    )
                    print(json.dumps(found))
        finally:
            gateway.stop()
    print(json.dumps({"rows": args.rows, "dimension": args.dimension, "machine": platform.processor()}))


if __name__ == "__main__":
    main()

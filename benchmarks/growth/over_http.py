"""What one body costs everybody: the longest stall of the event loop, and the peak memory of the front end.

    python -m benchmarks.growth.over_http [--only ENDPOINT]

Starts a gateway of its own. Each body is sent alone, three times, while another connection sends `GET /livez` again and
again. The stall is the longest wait for one of its answers; of an idle gateway it is a millisecond. Memory is the peak
of the front end above the state before, over the bytes of the body. The bodies are within the size limits: some are
refused, some are served.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/kits"))
from gateway_kit import Gateway

MIB = 1024 * 1024
JSON, LINES = "application/json", "application/x-ndjson"
TEXT = "The patient was seen by Dr. Miller on Monday. She felt better. He did not agree at all. "
JOBS = {
    "/jobs/domain": ('{"name": "n", "documents": %s}', '{"text":"x"}'),
    "/jobs/infill": ('{"name": "n", "documents": %s}', '{"text":"x"}'),
    "/jobs/synthesis": (
        '{"name": "n", "schema": {"columns": [{"name": "a", "kind": "numeric", "minimum": 0, "maximum": 1}]}, '
        '"method": "marginals", "epsilon": 1.0, "delta": 1e-6, "row_count": "public", "rows": %s}',
        '{"a":0.5}',
    ),
    "/jobs/finetune": (
        '{"name": "n", "labels": ["a", "b"], "epsilon": 1.0, "delta": 1e-5, "rows": 100, "batch": 10, "steps": 10, '
        '"private": %s}',
        '{"text":"x","label":"a"}',
    ),
}
SENTDP = '{"documents": %s, "epsilon": 1.0}'
VECTORS = '{"vectors": %s, "epsilon": 1.0}'
OPENAI = '{"model": "none", "input": %s}'
SANITIZE = '{"documents": %s}'


def filled(item: str, size: int) -> str:
    """A list of `size` bytes of the same item."""
    return "[" + ",".join([item] * (size // (len(item) + 1))) + "]"


def members(size: int) -> str:
    return "{" + ",".join(f'"unknown-{number}":0' for number in range(size // 18)) + "}"


def long_texts(count: int, chars: int) -> str:
    return json.dumps([{"text": (TEXT * (chars // len(TEXT) + 1))[:chars]} for _ in range(count)])


def unit_vectors(rows: int) -> str:
    row = json.dumps([1.0] + [0.0] * 383, separators=(",", ":"))
    return filled(row, rows * (len(row) + 1))


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Endpoint, what it is sent, the body, its media type."""
    for endpoint, template in (("/embed/sentdp", SENTDP), ("/sanitize", SANITIZE), ("/v1/embeddings", OPENAI)):
        for item in ("{}", "0", '""', "[]", '{"text":"x"}', '"x"'):
            yield endpoint, f"1 MiB of {item}", template % filled(item, MIB), JSON
        yield endpoint, '8 MiB of ""', template % filled('""', 8 * MIB - 200), JSON
        yield endpoint, "8 MiB of {}", template % filled("{}", 8 * MIB - 200), JSON
        yield endpoint, "2 MiB of unknown members", template % filled(members(2 * MIB), 2 * MIB), JSON
        yield endpoint, "8 MiB of digits", template % ("1" * (8 * MIB - 200)), JSON
    yield "/embed/sentdp", "8 texts of 1,000,000 characters", SENTDP % long_texts(8, 1_000_000), JSON
    yield "/embed/sentdp", "256 texts of 30,000 characters", SENTDP % long_texts(256, 30_000), JSON
    words = '{"documents": %s, "epsilon": 1.0, "segmentation": "words"}'
    yield "/embed/sentdp", "8 such texts by words", words % long_texts(8, 1_000_000), JSON
    yield "/embed/sentdp", "2,048 embeddings", SENTDP % (f'[{{"embeddings": {unit_vectors(2048)}}}]'), JSON
    for mode in ("class_marker", "dp", "metric_dp"):
        fill = "" if mode == "class_marker" else ', "epsilon": 1.0'
        body = '{"documents": %s, "fill": {"mode": "%s"%s}}'
        yield "/sanitize", f"8 such texts by {mode}", body % (long_texts(8, 1_000_000), mode, fill), JSON
    for item in ("[]", "[0]", "0", "[0,0,0,0,0,0,0,0]"):
        yield "/embed/vector", f"1 MiB of {item}", VECTORS % filled(item, MIB), JSON
    yield "/embed/vector", "900,000 numbers", VECTORS % unit_vectors(900_000 // 384), JSON
    yield "/embed/vector", "100,000 vectors of 8", VECTORS % filled("[0,0,0,0,0,0,0,1]", 100_000 * 18), JSON
    texts = '{"texts": %s, "epsilon": 1.0}'
    yield "/embed/vector", "2,048 texts", texts % filled('"some text"', 2048 * 12), JSON
    for path in ("/budget/estimate",):
        for template in (SENTDP, VECTORS, SANITIZE, *(template for template, _ in JOBS.values())):
            yield path, "1 MiB of {} " + template[2:12], template % filled("{}", MIB), JSON
    for path, (template, row) in JOBS.items():
        yield path, "2 MiB of 0", template % filled("0", 2 * MIB), JSON
        yield path, "2 MiB of {}", template % filled("{}", 2 * MIB), JSON
        yield path, "60 MiB of {}", template % filled("{}", 60 * MIB), JSON
        yield path, "200,000 rows", template % filled(row, 200_000 * (len(row) + 1)), JSON
        yield (
            path,
            "200,000 rows and a wrong one",
            template % (filled(row, 200_000 * (len(row) + 1))[:-1] + ",0]"),
            JSON,
        )
    yield (
        "/jobs/domain",
        "60 MiB of text",
        JOBS["/jobs/domain"][0] % filled(f'{{"text":"{TEXT}"}}' * 40, 60 * MIB),
        JSON,
    )
    yield "/sanitize/batch", "900,000 blank lines", "\n" * 900_000, LINES
    yield "/sanitize/batch", "a line of 8 MiB of {}", filled("{}", 8 * MIB - 10), LINES
    yield "/sanitize/batch", "a line of 8 MiB of text", json.dumps({"text": (TEXT * 100_000)[: 8 * MIB - 20]}), LINES
    yield "/sanitize/batch", "100,000 empty lines of {}", "{}\n" * 100_000, LINES
    yield "/admin/tenants", "1 MiB of plans", f'{{"name": "n", "epsilon": 1.0, "plans": {members(MIB)}}}', JSON


class Probe:
    """Asks for `/livez` until it is left; `worst_s` is the longest wait for an answer."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._stop = threading.Event()
        self.worst_s = 0.0

    def __enter__(self) -> Probe:
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()

    def _ask(self) -> None:
        while not self._stop.is_set():
            began = time.perf_counter()
            self._connection.request("GET", "/livez")
            self._connection.getresponse().read()
            self.worst_s = max(self.worst_s, time.perf_counter() - began)
            time.sleep(0.002)


def memory(pid: int, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="endpoints that contain this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(Path(folder) / "data", {"PRIVACY_GATEWAY_REQUEST_TIMEOUT_S": "20"})
        try:
            measure(gateway, options.only)
        finally:
            gateway.stop()


def measure(gateway: Gateway, only: str) -> None:
    tenant = gateway.tenant(epsilon=100_000, delta=1e-3)
    admin = (gateway.data_dir / "admin.key").read_text().strip()
    pid = gateway.process.pid
    print("| endpoint | body | MiB | status | stall ms | peak memory / body |\n| --- | --- | --- | --- | --- | --- |")
    worst = 0.0
    for endpoint, what, text, media_type in cases():
        if only not in endpoint:
            continue
        body = text.encode()
        headers = {
            "Authorization": f"Bearer {admin if endpoint.startswith('/admin') else tenant.key}",
            "Content-Type": media_type,
        }
        stall, peak, status = 0.0, 0, 0
        for _ in range(3):
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
            before = memory(pid, "VmRSS")
            with Probe(gateway.port) as probe:
                connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
                path = endpoint + ("?name=n" if media_type == LINES and "jobs" in endpoint else "")
                try:
                    connection.request("POST", path, body, headers)
                    answer = connection.getresponse()
                    answer.read()
                    status = answer.status
                except OSError:
                    status = -1
                connection.close()
            stall = max(stall, probe.worst_s)
            peak = max(peak, memory(pid, "VmHWM") - before)
        worst = max(worst, stall)
        print(
            f"| `{endpoint}` | {what} | {len(body) / MIB:.1f} | {status} | {stall * 1000:.0f} "
            f"| {peak / len(body):.1f} |",
            flush=True,
        )
    print(f"\nlongest stall {worst * 1000:.0f} ms")


if __name__ == "__main__":
    main()

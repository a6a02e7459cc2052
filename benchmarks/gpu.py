"""The workers on a GPU: their path, its speed beside the encoder's own `encode`, and a gateway on GPU and processor.

    python -m benchmarks.gpu --data ../shared/data [--device cuda:0]

Every pair of figures is of one run. The peer is `SentenceTransformer.encode` on the same device, with the types that
the device offers. The second part starts one gateway for each device, with all roles on it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.gateway import drive, load_documents
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.encoder_model import bundled_path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
from gateway_kit import Gateway, Tenant

_ROUNDS = 3
_INDEPENDENT_ROWS = 20_000


def seconds(work: Callable[[], object]) -> float:
    """The median of some rounds after one that is not counted."""
    work()
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def moved_rows(encoder: Encoder, texts: Sequence[str]) -> int:
    """How many of the rows of random batches differ in any bit from those of the texts alone."""
    random = np.random.default_rng(0)
    few = [texts[i] for i in random.choice(len(texts), 200, replace=False)]
    alone = np.concatenate([encoder.encode([text]) for text in few])
    moved = rows = 0
    while rows < _INDEPENDENT_ROWS:
        order = random.integers(0, len(few), random.integers(1, 2000))
        moved += int((encoder.encode([few[i] for i in order]) != alone[order]).any(axis=1).sum())
        rows += len(order)
    return moved


def encoders(device: str, documents: list[list[str]]) -> None:
    texts = [sentence for units in documents for sentence in units]
    started = time.perf_counter()
    encoder = Encoder(device=device)
    loaded = time.perf_counter()
    independent = encoder.self_check()
    checked = time.perf_counter()
    facts = encoder.facts()
    print(f"\n{device}: {len(texts)} sentences of {len(documents)} reviews; {facts.dtype}", end="")
    print(f", packed {facts.packed}, fixed batches {facts.fixed_batches}, passes its check: {independent}")
    print(f"loaded in {loaded - started:.1f} s, checked in {checked - loaded:.1f} s", end="; ")
    print(f"{moved_rows(encoder, texts)} of {_INDEPENDENT_ROWS} rows moved by their companions")
    exact = Encoder(dtype=torch.float32).encode(texts[:1000])
    cosines = (encoder.encode(texts[:1000]) * exact).sum(axis=1)
    print(f"cosine to float32 on the processor: mean {cosines.mean():.5f}, least {cosines.min():.5f}")
    print("\n| | all at once, sentences/s | document by document, sentences/s |\n| --- | --- | --- |")
    print(f"| worker's encoder, {facts.dtype} | {rates(encoder.encode, documents)} |")
    for dtype in ("float32", "float16", "bfloat16"):
        peer = SentenceTransformer(str(bundled_path()), device=device, model_kwargs={"dtype": dtype})
        encode = partial(peer.encode, batch_size=256, show_progress_bar=False)
        print(f"| `encode`, {dtype}, batches of 256 | {rates(encode, documents)} |", flush=True)


def rates(encode: Callable[[list[str]], object], documents: list[list[str]]) -> str:
    """Sentences a second, all at once and document by document, as two cells of a table."""
    texts = [sentence for units in documents for sentence in units]
    few = documents[:100]
    whole = len(texts) / seconds(lambda: encode(texts))
    single = sum(map(len, few)) / seconds(lambda: [encode(units) for units in few])
    return f"{whole:.0f} | {single:.0f}"


def sanitised(tenant: Tenant, texts: Sequence[str], fill: str) -> list[str]:
    """Every text by a call of its own, eight at a time."""

    def one(text: str) -> str:
        body = {"documents": [{"text": text}], "fill": {"mode": fill}}
        answer = tenant.http.post("/sanitize", json=body).raise_for_status()
        return str(answer.json()["data"][0]["text"])

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, texts))


def one_gateway(device: str, documents: list[list[str]], clients: int) -> list[str]:
    """Measure a gateway with all roles on `device`. Returns some masked texts."""
    flat = sum(map(len, documents))
    texts = [" ".join(units)[:1500] for units in documents[:32]]
    with tempfile.TemporaryDirectory() as folder:
        settings = {"PRIVACY_GATEWAY_DEVICES": f'["{device}"]'}
        started = time.perf_counter()
        gateway = Gateway(Path(folder) / "data", settings)
        ready = time.perf_counter() - started
        try:
            tenant = gateway.tenant(epsilon=1_000_000)
            embed = flat / seconds(lambda: drive(gateway, tenant, documents, clients, "sentence_codes"))
            plain = len(texts) / seconds(lambda: sanitised(tenant, texts, "class_marker"))
            filled = len(texts) / seconds(lambda: sanitised(tenant, texts, "top1"))
            print(f"| {device} | {ready:.1f} | {embed:.0f} | {plain:.1f} | {filled:.1f} |", flush=True)
            return sanitised(tenant, texts, "class_marker")
        finally:
            gateway.stop()


def gateways(device: str, documents: list[list[str]], clients: int) -> None:
    print("\n| all roles on | ready s | `/embed/sentdp` sentences/s | `/sanitize` documents/s | with `top1` fills |")
    print("| --- | --- | --- | --- | --- |")
    ours, theirs = (one_gateway(each, documents, clients) for each in (device, "cpu"))
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    print(f"\n{same} of {len(ours)} documents are masked alike on {device} and the processor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=32)
    options = parser.parse_args()
    documents = load_documents(options.data, options.documents)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads", end="; ")
    print(torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else options.device)
    encoders(options.device, documents)
    gateways(options.device, documents[:500], options.clients)


if __name__ == "__main__":
    main()

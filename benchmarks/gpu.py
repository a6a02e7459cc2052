"""The workers on a GPU: their path, its speed beside the encoder's own `encode`, and a gateway on GPU and processor.

    python -m benchmarks.gpu --data ../shared/data [--device cuda:0]

Every pair of figures is of one run. The peer is `SentenceTransformer.encode` on the same device, with the types that
the device offers. The second part starts one gateway for each device, with all roles on it.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from gateway_kit import Tenant
from sentence_transformers import SentenceTransformer

from benchmarks.gateway import drive
from benchmarks.kit import arguments, head, in_turn, reviews, row, running
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.encoder_model import bundled_path

_ROUNDS = 3
_INDEPENDENT_ROWS = 20_000


def seconds(work: Callable[[], object]) -> float:
    """The median of some rounds after one that is not counted."""
    return statistics.median(in_turn([work], _ROUNDS)[0])


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
    print(f"cosine to float32 on the processor: mean {cosines.mean():.5f}, least {cosines.min():.5f}\n")
    head("", "all at once, sentences/s", "document by document, sentences/s")
    row(f"worker's encoder, {facts.dtype}", *rates(encoder.encode, documents))
    for dtype in ("float32", "float16", "bfloat16"):
        peer = SentenceTransformer(str(bundled_path()), device=device, model_kwargs={"dtype": dtype})
        encode = partial(peer.encode, batch_size=256, show_progress_bar=False)
        row(f"`encode`, {dtype}, batches of 256", *rates(encode, documents))


def rates(encode: Callable[[list[str]], object], documents: list[list[str]]) -> tuple[str, str]:
    """Sentences a second, all at once and document by document."""
    texts = [sentence for units in documents for sentence in units]
    few = documents[:100]
    whole = len(texts) / seconds(lambda: encode(texts))
    single = sum(map(len, few)) / seconds(lambda: [encode(units) for units in few])
    return f"{whole:.0f}", f"{single:.0f}"


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
    started = time.perf_counter()
    with running({"PRIVACY_GATEWAY_DEVICES": f'["{device}"]'}) as gateway:
        ready = time.perf_counter() - started
        tenant = gateway.tenant(epsilon=1_000_000)
        embed = flat / seconds(lambda: drive(gateway, tenant, documents, clients, "sentence_codes"))
        plain = len(texts) / seconds(lambda: sanitised(tenant, texts, "class_marker"))
        filled = len(texts) / seconds(lambda: sanitised(tenant, texts, "top1"))
        row(device, f"{ready:.1f}", f"{embed:.0f}", f"{plain:.1f}", f"{filled:.1f}")
        return sanitised(tenant, texts, "class_marker")


def gateways(device: str, documents: list[list[str]], clients: int) -> None:
    print()
    head("all roles on", "ready s", "`/embed/sentdp` sentences/s", "`/sanitize` documents/s", "with `top1` fills")
    ours, theirs = (one_gateway(each, documents, clients) for each in (device, "cpu"))
    same = sum(a == b for a, b in zip(ours, theirs, strict=True))
    print(f"\n{same} of {len(ours)} documents are masked alike on {device} and the processor")


def main() -> None:
    options = arguments(__doc__, needs_data=True, device="cuda:0", documents=1000, clients=32)
    documents = reviews(options.data, options.documents)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads", end="; ")
    print(torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else options.device)
    encoders(options.device, documents)
    gateways(options.device, documents[:500], options.clients)


if __name__ == "__main__":
    main()

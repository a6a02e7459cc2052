"""The workers on a GPU, beside the libraries that others use on the same device.

    python -m benchmarks.gpu --data ../shared/data [--device cuda:0] [--parts encoder models step gateways processes]

* `encoder`: the worker's encoder beside `SentenceTransformer.encode` at its best batch, in each type of the device.
* `models`: the tagger, the model that fills and SmolLM2 beside transformers with models of the same form.
* `step`: a step of private training beside Opacus' hooks and optimiser, on the same rows and adapters.
* `gateways`: one gateway for each device, with all roles on it.
* `processes`: sentences a second of `serve --processes N`, as a share of the encoder alone.

Every pair of figures is of one run.
"""

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gateway_kit import Tenant
from sentence_transformers import SentenceTransformer

from benchmarks.gateway import drive
from benchmarks.kit import arguments, head, in_turn, reviews, row, running
from benchmarks.processes import Served
from core.text.model_fills import Blank
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.encoder_model import bundled_path, fastest_dtype

_ROUNDS = 3
_INDEPENDENT_ROWS = 20_000
_BATCHES = (64, 256, 1024, 4096)
_STEP_ROWS = 256


def seconds(work: Callable[[], object]) -> float:
    """The median of some rounds after one that is not counted."""
    return statistics.median(in_turn([work], _ROUNDS)[0])


def best_batch(work: Callable[[int], object], sizes: Sequence[int]) -> int:
    times = {size: seconds(partial(work, size)) for size in sizes}
    return min(sizes, key=lambda size: times[size])


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
        encode = partial(peer.encode, show_progress_bar=False)
        best = best_batch(lambda size, encode=encode: encode(texts, batch_size=size), _BATCHES)
        row(f"`encode`, {dtype}, batches of {best}", *rates(partial(encode, batch_size=best), documents))


def rates(encode: Callable[[list[str]], object], documents: list[list[str]]) -> tuple[str, str]:
    """Sentences a second, all at once and document by document."""
    texts = [sentence for units in documents for sentence in units]
    few = documents[:100]
    whole = len(texts) / seconds(lambda: encode(texts))
    single = sum(map(len, few)) / seconds(lambda: [encode(units) for units in few])
    return f"{whole:.0f}", f"{single:.0f}"


def models(device: str, documents: list[list[str]]) -> None:
    """Texts a second. The peers have the form and the size of ours, and the speed does not depend on their weights."""
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertForTokenClassification, pipeline

    from gpu_workers.models.infill_sources import infill_model
    from gpu_workers.models.sources import INFILL_BUNDLED
    from gpu_workers.models.tagger import embedded_tagger

    texts = [" ".join(units[:3])[:400] for units in documents]
    halves = [text.split(" ", 6) for text in texts]
    blanks = [Blank(" ".join(half[:3]) + " ", (" " + " ".join(half[4:]),)) for half in halves]
    masked = [blank.before + "[MASK]" + blank.after[0] for blank in blanks]
    config = BertConfig.from_pretrained(bundled_path(), num_labels=11)
    own = {"tokenizer": AutoTokenizer.from_pretrained(bundled_path()), "device": device}
    dtype = fastest_dtype(torch.device(device))
    tagged = pipeline("token-classification", model=BertForTokenClassification(config).to(dtype), **own)
    filled = pipeline("fill-mask", model=BertForMaskedLM(config).to(dtype), top_k=10, **own)
    bundled = infill_model(INFILL_BUNDLED, device=device)
    smollm2: Any = infill_model("smollm2", device=device)
    tagger = embedded_tagger(device=device)
    print()
    head("", "ours, texts/s", "transformers, texts/s", "batches of")
    beside("tagger", lambda: tagger.tag(texts), lambda size: tagged(texts, batch_size=size), len(texts))
    fills = partial(bundled.ranked, blanks, count=10)
    beside("fill, bundled", fills, lambda size: filled(masked, batch_size=size), len(texts))
    written = partial(generated, smollm2, blanks)
    beside("fill, SmolLM2", lambda: smollm2.ranked(blanks, count=4), written, len(texts))


def generated(smollm2: Any, blanks: Sequence[Blank], size: int) -> None:
    """The same prompts by `generate`: four beams of up to three pieces."""
    rows = [torch.from_numpy(smollm2._row(blank)) for blank in blanks]
    for start in range(0, len(rows), size):
        part = [each.flip(0) for each in rows[start : start + size]]
        ids = torch.nn.utils.rnn.pad_sequence(part, batch_first=True, padding_value=-1).flip(1)
        options = {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 3, "pad_token_id": 0}
        shown = {"input_ids": ids.clamp_min(0), "attention_mask": (ids >= 0).long()}
        smollm2.net.generate(**{name: each.to(smollm2._device) for name, each in shown.items()}, **options)


def beside(name: str, ours: Callable[[], object], theirs: Callable[[int], object], texts: int) -> None:
    """A row: ours, and the peer at its best batch."""
    best = best_batch(theirs, (32, 256))
    row(name, f"{texts / seconds(ours):.0f}", f"{texts / seconds(partial(theirs, best)):.0f}", best)


def training_step(device: str, documents: list[list[str]]) -> None:
    """The same rows and adapters, in one physical batch."""
    from opacus.grad_sample import GradSampleHooks
    from opacus.optimizers import DPOptimizer

    from gpu_workers.finetune.classifier import Classifier, Rows, load_base
    from gpu_workers.finetune.gradients import Method, PrivateGradient, prepare

    own = torch.device(device)
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    texts = [(" ".join(units),) for units in documents[:_STEP_ROWS]]  # cut to one length, so in one physical batch
    labels = [place % 2 for place in range(len(texts))]
    print()
    head("method", "ours, rows/s", "Opacus, rows/s", "rows in a step")
    for method in (Method.LORA, Method.FULL):
        base = load_base(None, device=own, pieces_max=32)
        ((_, batch),) = Rows(base, texts, labels, device=own).batches(np.arange(len(texts)), pieces_max=1 << 30)
        count = len(batch.labels)
        model = Classifier(base, labels=2, pairs=False)
        trained = prepare(model, method)
        noise = {"noise_multiplier": 1.0, "expected_batch": count}
        gradient = PrivateGradient(model, trained.own, clip_norm=0.1, **noise)
        ours = seconds(partial(gradient.step, [batch]))
        gradient.close()
        hooks = GradSampleHooks(model, loss_reduction="sum")
        plain = torch.optim.AdamW(trained.own.values())
        optimiser = DPOptimizer(plain, noise_multiplier=1.0, max_grad_norm=0.1, expected_batch_size=count)

        def peer(model: Any = model, optimiser: Any = optimiser, batch: Any = batch) -> None:
            torch.nn.functional.cross_entropy(model(batch.parts), batch.labels, reduction="sum").backward()
            optimiser.step()
            optimiser.zero_grad()

        theirs = seconds(peer)
        hooks.cleanup()
        row(method.value, f"{count / ours:.0f}", f"{count / theirs:.0f}", count)


def processes(device: str, documents: list[list[str]], clients: int, numbers: Sequence[int]) -> None:
    """Each number alone on the machine."""
    texts = [sentence for units in documents for sentence in units]
    encoder = Encoder(device=device)
    raw = len(texts) / seconds(partial(encoder.encode, texts))
    del encoder
    print(f"\nThe encoder alone: {raw:.0f} sentences/s.\n")
    head("`--processes`", "`/embed/sentdp` sentences/s", "of the encoder alone")
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            gateway = Served(Path(folder) / "data", number, {"DEVICES": f'["{device}"]'})
            try:
                tenant = gateway.tenant(epsilon=1_000_000)
                rate = len(texts) / seconds(partial(drive, gateway, tenant, documents, clients, "sentence_codes"))
            finally:
                gateway.stop()
        row(number, f"{rate:.0f}", f"{rate / raw:.2f}")


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
    parts = ["encoder", "models", "step", "gateways", "processes"]
    options = arguments(
        __doc__, needs_data=True, device="cuda:0", documents=1000, clients=32, parts=parts, processes=[1, 2, 4, 8]
    )
    documents = reviews(options.data, options.documents)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads", end="; ")
    print(torch.cuda.get_device_name(options.device) if options.device.startswith("cuda") else options.device)
    works: dict[str, Callable[[], None]] = {
        "encoder": lambda: encoders(options.device, documents),
        "models": lambda: models(options.device, documents),
        "step": lambda: training_step(options.device, documents),
        "gateways": lambda: gateways(options.device, documents[:500], options.clients),
        "processes": lambda: processes(options.device, documents, options.clients, options.processes),
    }
    for part in options.parts:
        works[part]()


if __name__ == "__main__":
    main()

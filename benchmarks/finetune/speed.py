"""Steps a second of the private loop against the same training written by hand with Opacus, and peak memory.

SST-2, all 67,349 rows, LoRA on the bundled encoder, the same adapters, clipping norm, noise, expected batch and size of
a physical batch in rows. The peer is what Opacus documents: `PrivacyEngine.make_private` in hooks mode with Poisson
sampling, its optimiser's noise, `BatchMemoryManager`; its collation pads to a physical batch's longest row. A second
peer sorts each batch by length first, which Opacus does not do by itself: less padding, as ours has. All are measured
in turn, each in a process of its own, in seconds of the processor on one thread.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.finetune.tasks import glue

BATCH, PHYSICAL_ROWS, NOISE = 256, 32, 1.0
OURS, OPACUS, OPACUS_SORTED = "ours", "Opacus by hand", "the same, each batch sorted by length"


def _ours(data: Path) -> Callable[[], None]:
    import torch

    from core.accounting.plans import Certificate
    from core.finetune.plan import PrivacyPlan
    from gpu_workers.finetune.classifier import Classifier, Rows, load_base
    from gpu_workers.finetune.gradients import Method, prepare
    from gpu_workers.finetune.training import PrivateTraining

    task, device = glue(data, "sst2", rows=None, seed=0), torch.device("cpu")
    base = load_base(None, device=device)
    model = Classifier(base, labels=2, pairs=False)
    trained = prepare(model, Method.LORA)
    rows = Rows(base, task.private.texts, [int(label) for label in task.private.labels], device=device)
    plan = PrivacyPlan(8.0, 1e-5, len(rows), BATCH, 1_000, NOISE, Certificate(8.0, 1e-5, 0.0))

    class Nowhere:
        def read(self) -> None:
            return None

        def write(self, state: bytes) -> None:
            pass

    training = PrivateTraining(model, trained, plan, Nowhere())
    return lambda: training._one_step(rows)


class _ByLength:
    """Batches of indices, each sorted by its rows' lengths."""

    def __init__(self, batches: Any, lengths: list[int]) -> None:
        self._batches, self._lengths = batches, lengths

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._batches:
            yield sorted(batch, key=self._lengths.__getitem__)


def _opacus(data: Path, *, by_length: bool) -> Callable[[], None]:
    import torch
    from opacus import PrivacyEngine
    from opacus.utils.batch_memory_manager import BatchMemoryManager
    from torch.utils.data import DataLoader

    from gpu_workers.finetune.classifier import Classifier, Part, load_base
    from gpu_workers.finetune.gradients import Method, prepare
    from gpu_workers.finetune.training import CLIP_NORM

    task, device = glue(data, "sst2", rows=None, seed=0), torch.device("cpu")
    base = load_base(None, device=device)
    model = Classifier(base, labels=2, pairs=False)
    trained = prepare(model, Method.LORA)
    pieces = [row[0].ids for row in base.pieces(task.private.texts)]
    examples = list(zip(pieces, [int(label) for label in task.private.labels], strict=True))

    def collate(found: list[Any]) -> tuple[Any, Any, Any]:
        longest = max(len(ids) for ids, _ in found)
        ids = torch.full((len(found), longest), base.pad, dtype=torch.int64)
        mask = torch.zeros((len(found), longest), dtype=torch.bool)
        for place, (own, _) in enumerate(found):
            ids[place, : len(own)] = torch.tensor(own)
            mask[place, : len(own)] = True
        return ids, mask, torch.tensor([label for _, label in found])

    loader = DataLoader(examples, batch_size=BATCH, collate_fn=collate)  # type: ignore[arg-type]
    optimiser = torch.optim.Adam(trained.optimised.values(), lr=2e-3)
    model.train()
    module, private, private_loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimiser,
        data_loader=loader,
        noise_multiplier=NOISE,
        max_grad_norm=CLIP_NORM,
        poisson_sampling=True,
    )
    if by_length:
        ordered = _ByLength(private_loader.batch_sampler, [len(ids) for ids, _ in examples])
        private_loader = DataLoader(
            private_loader.dataset,
            batch_sampler=ordered,  # type: ignore[arg-type]
            collate_fn=private_loader.collate_fn,
        )
    manager = BatchMemoryManager(data_loader=private_loader, max_physical_batch_size=PHYSICAL_ROWS, optimizer=private)
    batches = iter(manager.__enter__())

    def step() -> None:
        done = False
        while not done:
            ids, mask, labels = next(batches)
            private.zero_grad()
            logits = module((Part(ids, mask, torch.zeros_like(ids)),))
            torch.nn.functional.cross_entropy(logits, labels).backward()  # type: ignore[no-untyped-call]
            done = not private._check_skip_next_step(pop_next=False)
            private.step()

    return step


def measured(which: str, data: Path, steps: int) -> tuple[list[float], float]:
    """Seconds of processor for each step after a first, and the peak of memory in GB."""
    import torch

    torch.set_num_threads(1)
    step = _ours(data) if which == OURS else _opacus(data, by_length=which == OPACUS_SORTED)
    step()
    seconds = []
    for _ in range(steps):
        begun = time.process_time()
        step()
        seconds.append(time.process_time() - begun)
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def show(data: Path, *, rounds: int, steps: int) -> None:
    seconds: dict[str, list[float]] = {OURS: [], OPACUS: [], OPACUS_SORTED: []}
    peaks: dict[str, float] = {}
    for _ in range(rounds):
        for which in seconds:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
                found, peaks[which] = alone.submit(measured, which, data, steps).result()
            seconds[which] += found
    means = {which: float(np.mean(found)) for which, found in seconds.items()}
    print("| loop | seconds of processor a step | steps a second | peak memory, GB | ours to it |\n|" + " --- |" * 5)
    for which, mean in means.items():
        print(f"| {which} | {mean:.2f} | {1 / mean:.3f} | {peaks[which]:.2f} | {mean / means[OURS]:.2f} |")

"""A step releases what is accounted: never more than a batch's clipped rows, noise on all of it, also of no rows."""

from pathlib import Path

import numpy as np
import pytest
import torch
from finetune_kit import Tiny, checkpoint, tiny
from scipy import stats
from tiers import cells
from torch import nn

from gpu_workers.finetune.classifier import Batch
from gpu_workers.finetune.gradients import Method, PrivateGradient
from service.config.settings import Settings

EXPECTED = 12
RATE = 0.5


def released(made: Tiny, rows: int, *, clip_norm: float, noise: float) -> dict[str, torch.Tensor]:
    """Of that many rows, all of one label, lest their gradients cancel."""
    gradient = PrivateGradient(
        made.model, made.trained.own, clip_norm=clip_norm, noise_multiplier=noise, expected_batch=EXPECTED
    )
    batches = (batch for _, batch in made.rows.batches(np.arange(1, 2 * rows, 2), pieces_max=64))
    found = gradient.step(batches)
    gradient.close()
    return found


def moved(made: Tiny, rows: int, *, clip_norm: float) -> float:
    """How far a step of plain descent moves everything, with next to no noise."""
    before = {name: tensor.detach().clone() for name, tensor in made.trained.optimised.items()}
    found = made.trained.gradients(released(made, rows, clip_norm=clip_norm, noise=1e-9))
    with torch.no_grad():
        for name, tensor in made.trained.optimised.items():
            tensor.add_(found[name], alpha=-RATE)
    gaps = [(made.trained.optimised[name] - before[name]).detach().double().square().sum() for name in before]
    return float(sum(gaps) ** 0.5)


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("family", cells(["bert", "roberta"]))
def test_an_update_is_no_longer_than_its_rows_clipped(folder: Path, family: str, method: Method) -> None:
    clip_norm, rows = 1e-3, 20
    bound = RATE * clip_norm * rows / EXPECTED
    distance = moved(tiny(checkpoint(folder, family), method, count=40), rows, clip_norm=clip_norm)
    assert 0.2 * bound < distance <= bound


def test_one_row_of_the_largest_batch_moves_the_sum_by_no_more_than_the_norm() -> None:
    """Half of the rows pull one way, then half the other: the running sum is large and the released one small."""
    clip_norm, count, at_once = 0.1, Settings.finetune_rows_max, 10_000
    generator = torch.Generator().manual_seed(2)
    inputs = 2**0.5 * clip_norm * (0.9 + 0.1 * torch.rand(count, 1, generator=generator))
    inputs[0] = 1.0
    labels = (torch.arange(count) >= count // 2).long()

    def release(rows: slice) -> torch.Tensor:
        model = nn.Linear(1, 2, bias=False)
        nn.init.zeros_(model.weight)
        gradient = PrivateGradient(
            model, {"weight": model.weight}, clip_norm=clip_norm, noise_multiplier=1e-12, expected_batch=1
        )
        parts = zip(inputs[rows].split(at_once), labels[rows].split(at_once), strict=True)
        return gradient.step(Batch(*part) for part in parts)["weight"].double()  # type: ignore[arg-type]

    moved = float((release(slice(None)) - release(slice(1, None))).norm())

    assert 0.99 * clip_norm < moved <= clip_norm


@pytest.mark.parametrize("method", list(Method))
def test_an_empty_batch_is_a_step_of_noise_alone(folder: Path, method: Method) -> None:
    made = tiny(checkpoint(folder, "bert"), method)
    found = released(made, 0, clip_norm=0.7, noise=3.0)
    assert found.keys() == made.trained.own.keys()
    for name, tensor in found.items():
        assert tensor.shape == made.trained.own[name].shape
    everything = torch.cat([tensor.flatten() for tensor in found.values()]).numpy() * EXPECTED / (0.7 * 3.0)
    assert stats.kstest(everything, "norm").pvalue > 1e-6


def test_noise_is_drawn_anew_for_each_step_and_not_from_the_frameworks_generator(folder: Path) -> None:
    made, drawn = tiny(checkpoint(folder, "bert"), Method.LORA), []
    for _ in range(2):
        torch.manual_seed(3)
        np.random.seed(3)
        drawn.append(released(made, 0, clip_norm=1.0, noise=1.0))
    assert all(not torch.equal(drawn[0][name], drawn[1][name]) for name in drawn[0])

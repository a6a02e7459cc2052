"""Planted bugs of private training; each names the step of the proof it breaks."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from audits.bug import Bug, check, over_claim
from audits.checks import in_two_children
from audits.training import CANARIES as ROWS
from audits.training import CLIP, NOISE, Canaries, Watched, orthogonal, plan
from finetune_kit import Memory
from randomgen import AESCounter
from scipy import stats
from torch import nn

from core.finetune import sampling
from core.finetune.plan import Sampling
from gpu_workers.finetune import gradients
from gpu_workers.finetune import training as loop
from gpu_workers.finetune.classifier import Batch
from gpu_workers.finetune.gradients import PrivateGradient, Tensors

CANARIES = over_claim("canaries in whole trainings", lambda: orthogonal(NOISE, 12))
ALLOCATED = over_claim(
    "canaries in whole trainings by random allocation", lambda: orthogonal(NOISE, 12, Sampling.RANDOM_ALLOCATION)
)
_TOLERANCE = 1 + 1e-5
_UNIT = gradients.UNIT * CLIP  # of the integers of a clipped sum


def _rows(count: int, seed: int = 5) -> Tensors:
    """Gradients of rows that disagree in length by far, over two tensors."""
    generator = torch.Generator().manual_seed(seed)
    lengths = 10.0 ** torch.randint(-3, 4, (count, 1), generator=generator)
    return {
        "one": torch.randn(count, 6, generator=generator) * lengths,
        "two": torch.randn(count, 4, generator=generator) * lengths,
    }


def _length(tensors: Tensors) -> float:
    return float(torch.cat([tensor.flatten().double() for tensor in tensors.values()]).norm())


def _one_row_moves_the_sum_by_its_clipping_norm() -> bool:
    """Every row of twenty left out in turn, over all tensors together; no row of a length that is not finite counts."""
    rows = _rows(20)
    rows["one"][7] = torch.nan

    def total(kept: list[int]) -> Tensors:
        summed = gradients.clipped_sum({name: tensor[kept] for name, tensor in rows.items()}, clip_norm=CLIP)
        return {name: tensor * _UNIT for name, tensor in summed.items()}

    whole = total(list(range(20)))
    for left_out in range(20):
        rest = total([row for row in range(20) if row != left_out])
        moved = {name: whole[name] - rest[name] for name in whole}
        if not _length(moved) <= CLIP * _TOLERANCE:
            return False
    return True


def _a_weighted_row_moves_the_sum_by_no_more() -> bool:
    """By the clipping norm times the weight of its label, and by the norm at most, whatever the weight is."""
    rows, weights = _rows(20), torch.linspace(0.01, 4.0, 20, dtype=torch.float64)
    for row in range(20):
        one = {name: tensor[row : row + 1] for name, tensor in rows.items()}
        found = gradients.clipped_sum(one, clip_norm=CLIP, weights=weights[row : row + 1])
        moved = _length({name: tensor * _UNIT for name, tensor in found.items()})
        if not moved <= CLIP * min(1.0, float(weights[row])) * _TOLERANCE:
            return False
    return True


class _Layers(nn.Module):
    """Two layers, so that a release is over several tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(40, 60, bias=False), nn.Linear(60, 40, bias=False)

    def forward(self, parts: Any) -> torch.Tensor:
        found: torch.Tensor = self.second(self.first(parts))
        return found


def _gradient(noise_multiplier: float, expected_batch: int = 10) -> PrivateGradient:
    torch.manual_seed(3)
    model = _Layers()
    return PrivateGradient(
        model,
        dict(model.named_parameters()),
        clip_norm=CLIP,
        noise_multiplier=noise_multiplier,
        expected_batch=expected_batch,
    )


def _batch(count: int) -> Batch:
    generator = torch.Generator().manual_seed(9)
    return Batch(torch.randn(count, 40, generator=generator), torch.zeros(count, dtype=torch.int64))  # type: ignore[arg-type]


def _mean_is_over_the_expected_batch() -> bool:
    """With hardly any noise: a release is the clipped sum over ten, whatever the number of rows."""
    gradient = _gradient(1e-6)
    batch = _batch(4)
    expected = gradients.clipped_sum(gradient.own(batch), clip_norm=CLIP)
    released = gradient.step(iter([batch]))
    return all(torch.allclose(released[name] * 10, (expected[name] * _UNIT).float(), atol=1e-3) for name in expected)


def _an_empty_batch_is_noise() -> bool:
    """Kolmogorov and Smirnov's test of every tensor of an empty batch's release, and two that differ."""
    gradient = _gradient(2.0)
    released = [gradient.step(iter(())) for _ in range(2)]
    for name, tensor in released[0].items():
        if torch.equal(tensor, released[1][name]):
            return False
        drawn = tensor.double().flatten().numpy() * 10 / (2.0 * CLIP)
        if stats.kstest(drawn, "norm").pvalue < 1e-6:
            return False
    return True


def _batches_are_poisson() -> bool:
    """Sizes are binomial, and so is the number of batches that a row is in."""
    counts = np.zeros(40, dtype=np.int64)
    sizes = []
    for _ in range(2_000):
        chosen = sampling.poisson_batch(rows=40, batch=10)
        counts[chosen] += 1
        sizes.append(len(chosen))
    variance = float(np.var(sizes)) / (40 * 0.25 * 0.75)
    spread = float(((counts - 500) ** 2 / (2_000 * 0.25 * 0.75)).sum())
    return 0.8 < variance < 1.25 and stats.chi2.sf(spread, 40) > 1e-6 and stats.chi2.cdf(spread, 40) > 1e-6


def _rows_join_one_step_of_each_epoch() -> bool:
    """A training of two epochs of two steps: every row is in one step of each, and the epochs differ."""
    model = nn.Linear(ROWS, 2, bias=False)
    chosen: list[np.ndarray] = []

    class Recorded(Canaries):
        def batches(self, rows: np.ndarray, *, pieces_max: int) -> Iterator[tuple[np.ndarray, Batch]]:
            chosen.append(rows)
            return super().batches(rows, pieces_max=pieces_max)

    planned = plan(NOISE, sampling=Sampling.RANDOM_ALLOCATION)
    training = loop.PrivateTraining(model, Watched(model), planned, Memory(), clip_norm=CLIP)  # type: ignore[arg-type]
    training.run(Recorded(np.zeros(ROWS, dtype=bool)), None, lambda _: None)
    epochs = [np.sort(np.concatenate(chosen[first : first + 2])) for first in (0, 2)]
    return all(np.array_equal(rows, np.arange(ROWS)) for rows in epochs) and not np.array_equal(chosen[0], chosen[2])


def _rows_are_allocated_independently() -> bool:
    """The size of a step's batch is binomial."""
    sizes = [int((loop.random_allocation(rows=40, steps=4) == 0).sum()) for _ in range(2_000)]
    return 0.8 < float(np.var(sizes)) / (40 * 0.25 * 0.75) < 1.25


def _children_sample_independently() -> bool:
    one, other = in_two_children(lambda: sampling.poisson_batch(rows=4_000, batch=500).tobytes())
    return one != other


SENSITIVITY = check("one row moves the clipped sum by C at most", _one_row_moves_the_sum_by_its_clipping_norm)
WEIGHTED = check("a weighted row moves it by no more", _a_weighted_row_moves_the_sum_by_no_more)
MEAN = check("the mean is over the expected batch", _mean_is_over_the_expected_batch)
EMPTY = check("an empty batch's release is fresh Gaussian noise in every tensor", _an_empty_batch_is_noise)
POISSON = check("batches are Poisson samples", _batches_are_poisson)
EPOCHS = check("every row is in one step of each epoch, chosen anew", _rows_join_one_step_of_each_epoch)
ALLOCATION = check("rows are allocated independently", _rows_are_allocated_independently)
FORKS = check("forked samplers draw independently", _children_sample_independently)

Plant = Callable[[pytest.MonkeyPatch], None]


def _noise(change: Callable[[float], float]) -> Plant:
    real = sampling.noisy_sum

    def broken(total: Any, *, deviation: float, generator: Any) -> Any:
        return real(total, deviation=change(deviation), generator=generator)

    return lambda patch: patch.setattr(gradients, "noisy_sum", broken)


def _sums(broken: Callable[..., Tensors]) -> Plant:
    return lambda patch: patch.setattr(gradients, "clipped_sum", broken)


_clipped = gradients.clipped_sum


def _integers(total: Tensors, clip_norm: float) -> Tensors:
    return {name: (tensor.double() / (gradients.UNIT * clip_norm)).long() for name, tensor in total.items()}


def _unclipped(own: Tensors, *, clip_norm: float) -> Tensors:
    return _integers({name: tensor.sum(dim=0) for name, tensor in own.items()}, clip_norm)


def _each_tensor_by_itself(own: Tensors, *, clip_norm: float) -> Tensors:
    return {name: _clipped({name: tensor}, clip_norm=clip_norm)[name] for name, tensor in own.items()}


def _after_the_sum(own: Tensors, *, clip_norm: float) -> Tensors:
    """The mean gradient is clipped, and then counts once for each row."""
    count = len(next(iter(own.values())))
    mean = {name: torch.nan_to_num(tensor).mean(dim=0, keepdim=True) for name, tensor in own.items()}
    return {name: count * tensor for name, tensor in _clipped(mean, clip_norm=clip_norm).items()}


def _normalised_by_the_longest(own: Tensors, *, clip_norm: float) -> Tensors:
    """Rows are shortened in one proportion, so that the longest fits."""
    finite = {name: torch.nan_to_num(tensor) for name, tensor in own.items()}
    squares = sum(tensor.flatten(1).square().sum(dim=1) for tensor in finite.values())
    longest = float(torch.as_tensor(squares).max().sqrt())
    scale = clip_norm / max(longest, clip_norm)
    return _integers({name: tensor.sum(dim=0) * scale for name, tensor in finite.items()}, clip_norm)


def _not_finite_counts(own: Tensors, *, clip_norm: float) -> Tensors:
    """A row that is not finite makes the sum huge."""
    broken = any(not bool(tensor.isfinite().all()) for tensor in own.values())
    return {name: tensor + (1 << 50) * broken for name, tensor in _clipped(own, clip_norm=clip_norm).items()}


def _any_weight(own: Tensors, *, clip_norm: float, weights: torch.Tensor) -> Tensors:
    """A rare label's rows count more than once."""
    one = {name: _clipped({name: tensor}, clip_norm=clip_norm)[name] for name, tensor in own.items()}
    return {name: (tensor.double() * weights.max()).long() for name, tensor in one.items()}


def _realised_batch(patch: pytest.MonkeyPatch) -> None:
    real = PrivateGradient.step

    def broken(self: PrivateGradient, batches: Any) -> Tensors:
        known = list(batches)
        size = sum(len(batch.labels) for batch in known)
        factor = self._expected_batch / max(1, size)
        return {name: tensor * factor for name, tensor in real(self, iter(known)).items()}

    patch.setattr(PrivateGradient, "step", broken)


def _no_empty_steps(patch: pytest.MonkeyPatch) -> None:
    real = PrivateGradient.step

    def broken(self: PrivateGradient, batches: Iterator[Batch]) -> Tensors:
        known = list(batches)
        if not known:
            return {name: torch.zeros_like(parameter) for name, parameter in self._parameters.items()}
        return real(self, iter(known))

    patch.setattr(PrivateGradient, "step", broken)


def _same_noise_each_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gradients, "noise_generator", lambda: np.random.Generator(AESCounter(key=7)))


def _first_tensor_only(patch: pytest.MonkeyPatch) -> None:
    real = sampling.noisy_sum
    state = {"calls": 0}

    def broken(total: Any, *, deviation: float, generator: Any) -> Any:
        state["calls"] += 1
        return real(total, deviation=deviation if state["calls"] % 2 else deviation * 1e-9, generator=generator)

    patch.setattr(gradients, "noisy_sum", broken)


def _noise_after_the_mean(patch: pytest.MonkeyPatch) -> None:
    begun = PrivateGradient.__init__

    def broken(self: PrivateGradient, *args: Any, **given: Any) -> None:
        begun(self, *args, **given)
        self._deviation /= self._expected_batch

    patch.setattr(PrivateGradient, "__init__", broken)


def _fixed_size(patch: pytest.MonkeyPatch) -> None:
    def broken(*, rows: int, batch: int) -> Any:
        return np.sort(np.random.default_rng().permutation(rows)[:batch])

    patch.setattr(sampling, "poisson_batch", broken)
    patch.setattr(loop, "poisson_batch", broken)


def _in_order(patch: pytest.MonkeyPatch) -> None:
    """Batches of neighbouring rows: sizes as they should be, coins shared."""
    real = sampling.poisson_batch

    def broken(*, rows: int, batch: int) -> Any:
        return np.arange(len(real(rows=rows, batch=batch)))

    patch.setattr(sampling, "poisson_batch", broken)


def _seeded_coins(patch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    patch.setattr(sampling, "uniform_indices", lambda count, bound: generator.integers(0, bound, size=count))


def _four_releases(patch: pytest.MonkeyPatch) -> None:
    """A step is priced once, and run four times."""
    real = loop.PrivateTraining._one_step

    def broken(self: Any, rows: Any) -> None:
        for _ in range(4):
            real(self, rows)
        self.step -= 3

    patch.setattr(loop.PrivateTraining, "_one_step", broken)


def _every_step_of_an_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loop.PrivateTraining, "_batch", lambda self: np.arange(self._plan.rows))


def _allocated_once(patch: pytest.MonkeyPatch) -> None:
    """The allocation of the first epoch serves all epochs."""
    patch.setattr(loop, "random_allocation", cache(sampling.random_allocation))


def _poisson_in_place_of_an_allocation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        loop.PrivateTraining,
        "_batch",
        lambda self: sampling.poisson_batch(rows=self._plan.rows, batch=self._plan.batch),
    )


def _equal_parts(patch: pytest.MonkeyPatch) -> None:
    def broken(*, rows: int, steps: int) -> Any:
        return np.random.default_rng().permutation(rows) % steps

    patch.setattr(loop, "random_allocation", broken)


_OF = "training"

BUGS: tuple[Bug, ...] = (
    Bug(
        "half the noise of a step", _OF, "a deviation of the multiplier times C", _noise(lambda own: own / 2), CANARIES
    ),
    Bug("no clipping of rows", _OF, "each row shortened to at most C", _sums(_unclipped), CANARIES),
    Bug("each tensor clipped by itself", _OF, "over all tensors together", _sums(_each_tensor_by_itself), SENSITIVITY),
    Bug("clipped after the sum", _OF, "rows' own gradients, clipped, summed", _sums(_after_the_sum), SENSITIVITY),
    Bug(
        "rows shortened by the longest",
        _OF,
        "a row's gradient depends on that row",
        _sums(_normalised_by_the_longest),
        SENSITIVITY,
    ),
    Bug(
        "a row that is not finite counts",
        _OF,
        "a gradient that is not finite counts as zero",
        _sums(_not_finite_counts),
        SENSITIVITY,
    ),
    Bug("a weight above one", _OF, "multiplied by the weight of its label, at most 1", _sums(_any_weight), WEIGHTED),
    Bug("the mean over the realised batch", _OF, "the mean is over the expected size", _realised_batch, MEAN),
    Bug("no release of an empty batch", _OF, "an empty batch is a step as well", _no_empty_steps, EMPTY),
    Bug("the same noise in every step", _OF, "a generator for each step", _same_noise_each_step, EMPTY),
    Bug("noise on every other tensor", _OF, "noise on every entry", _first_tensor_only, EMPTY),
    Bug("noise of the sum added to the mean's scale", _OF, "noise is added to the sum", _noise_after_the_mean, EMPTY),
    Bug("batches of a fixed size", _OF, "every row by a coin of its own", _fixed_size, POISSON),
    Bug("the first rows of the table", _OF, "independently of all others", _in_order, POISSON),
    Bug("coins from a seeded generator", _OF, "integers from the operating system's CSPRNG", _seeded_coins, FORKS),
    Bug("four releases a step", _OF, "as many releases as the plan has steps", _four_releases, CANARIES),
    Bug(
        "rows in every step of an epoch",
        _OF,
        "with random allocation a row joins one step of an epoch",
        _every_step_of_an_epoch,
        ALLOCATED,
    ),
    Bug("Poisson sampling for random allocation", _OF, "exactly one step", _poisson_in_place_of_an_allocation, EPOCHS),
    Bug("one allocation for all epochs", _OF, "each epoch has an allocation of its own", _allocated_once, EPOCHS),
    Bug("steps of equal size", _OF, "rows are allocated independently", _equal_parts, ALLOCATION),
)

"""Uneven classes: what a row of each label adds, what counts cost, and what a training of a head finds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from finetune_kit import CPU, Memory, checkpoint, tiny

from core.accounting.plans import Certificate
from core.finetune.inputs import UNWEIGHTED, Hyperparameters, Split
from core.finetune.plan import PrivacyPlan
from core.finetune.sampling import WEIGHT_RATIO_MAX, label_weights, noisy_counts
from gpu_workers.finetune.artifact import LoadedClassifier, save_classifier
from gpu_workers.finetune.gradients import UNIT, Method, PrivateGradient, clipped_sum
from gpu_workers.finetune.training import Diverged, Task, fine_tune

ROWS, RARE = 200, 10
LABELS = ("common", "rare")


def test_labels_weigh_the_same_together_and_no_row_more_than_one() -> None:
    for sizes in ([0.95, 0.05], [950.0, 50.0], [1.0, 1.0, 1.0], [0.7, 0.2, 0.1], [3.0, 10_000.0]):
        weights = label_weights(np.array(sizes))
        assert weights.max() == 1.0
        assert weights.min() >= 1 / WEIGHT_RATIO_MAX
        together = weights * np.maximum(sizes, max(sizes) / WEIGHT_RATIO_MAX)
        assert np.allclose(together, together[0]), sizes
    for noisy in ([-3.0, 40.0], [0.0, 12.0], [-2.0, -1.0], [0.0, 0.0]):  # counts may be drawn so
        weights = label_weights(np.array(noisy))
        assert np.isfinite(weights).all(), noisy
        assert (weights > 0).all(), noisy
        assert (weights <= 1).all(), noisy


@pytest.mark.parametrize("weight", [1.0, 0.3, 1e-3, 7.0])
def test_a_weighted_row_is_no_longer_than_the_norm_times_its_weight(weight: float) -> None:
    norm = 0.1
    row = torch.randn(1, 50, generator=torch.Generator().manual_seed(1))
    for size in (1e-3, 1.0, 1e6):
        found = clipped_sum({"a": size * row}, clip_norm=norm, weights=torch.tensor([weight], dtype=torch.float64))
        length = float(found["a"].double().norm()) * UNIT * norm
        assert length <= min(weight, 1.0) * min(norm, size * float(row.norm())) * (1 + 1e-6)


def test_counts_are_near_the_truth_and_vary() -> None:
    labels = np.array([0] * 900 + [1] * 100)
    drawn = np.array([noisy_counts(labels, count=3, epsilon_nano=5 * 10**8) for _ in range(400)])
    assert drawn.dtype == np.int64
    assert np.allclose(drawn.mean(axis=0), [900, 100, 0], atol=1.0)
    # of two-sided geometric noise at epsilon .5: 2 a / (1 - a)^2 with a = e^-.5
    assert np.allclose(drawn.var(axis=0), 7.8, rtol=0.5)


def rows() -> Split:
    """One label in twenty, which is about another thing."""
    texts = [(f"{'the soup was cold' if row < RARE else 'the train was late'}, day {row % 7}",) for row in range(ROWS)]
    return Split(texts, [LABELS[row < RARE] for row in range(ROWS)])


def balanced() -> Split:
    texts = [(f"{'the meal was cold' if row % 2 else 'the bus was late'}, week {row % 5}",) for row in range(40)]
    return Split(texts, [LABELS[row % 2] for row in range(40)])


def plan(**changes: float) -> PrivacyPlan:
    quiet = PrivacyPlan(8.0, 1e-4, ROWS, ROWS // 2, 20, 0.2, Certificate(8.0, 1e-4, 0.0))
    return replace(quiet, **changes)


def trained(folder: Path | None, used: Hyperparameters, planned: PrivacyPlan, memory: Memory | None = None) -> object:
    task = Task(labels=LABELS, pairs=False, method=Method.HEAD, hyperparameters=used)
    return fine_tune(
        rows(), balanced(), task, planned, base_path=checkpoint(folder, "bert") if folder else None, device=CPU,
        checkpoint=memory or Memory(), report=lambda _: None,
    )  # fmt: skip


def test_a_rare_label_is_learnt_with_weights_and_missed_without(tmp_path: Path) -> None:
    few = {"steps": 2}
    declared = trained(None, Hyperparameters(class_shares=(0.95, 0.05)), plan(**few))
    counted = trained(None, Hyperparameters(), plan(**few, counts_epsilon_nano=5 * 10**8))
    without = trained(None, Hyperparameters(class_weights=UNWEIGHTED), plan(**few))
    assert declared.metrics.macro_f1 > 0.8
    assert counted.metrics.macro_f1 > 0.8
    assert (without.metrics.labels_given, without.metrics.balanced_accuracy) == (1, 0.5)
    assert set(declared.tensors) == {"head.weight", "head.bias"}
    assert declared.info.hyperparameters.class_shares == (0.95, 0.05)
    save_classifier(tmp_path / "made.safetensors", declared.info, declared.tensors)
    scores = LoadedClassifier(tmp_path / "made.safetensors", {}, device=CPU).probabilities(balanced().texts)
    right = [LABELS[best] == label for best, label in zip(scores.argmax(axis=1), balanced().labels, strict=True)]
    assert np.mean(right) == declared.metrics.accuracy, "the file's head reads whole vectors"


def test_counts_are_drawn_once_and_kept_with_the_first_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def counts(labels: np.ndarray, *, count: int, epsilon_nano: int) -> np.ndarray:
        drawn.append(epsilon_nano)
        return noisy_counts(labels, count=count, epsilon_nano=epsilon_nano)

    monkeypatch.setattr("gpu_workers.finetune.training.noisy_counts", counts)
    memory = Memory()
    planned = plan(counts_epsilon_nano=5 * 10**8)
    first = trained(folder, Hyperparameters(), planned, memory)
    again = trained(folder, Hyperparameters(), planned, memory)
    assert drawn == [5 * 10**8], "a checkpoint holds them"
    assert torch.equal(first.tensors["head.weight"], again.tensors["head.weight"])
    with pytest.raises(ValueError, match="another plan"):
        trained(folder, Hyperparameters(), plan(counts_epsilon_nano=10**8), memory)


def test_a_training_whose_weights_are_not_finite_ends(folder: Path) -> None:
    with pytest.raises(Diverged):
        trained(folder, Hyperparameters(class_weights=UNWEIGHTED, learning_rate=1e38), plan())


def test_the_mean_is_over_the_expected_weight_of_a_batch(folder: Path) -> None:
    made = tiny(checkpoint(folder, "bert"), Method.HEAD)
    quiet = {"clip_norm": 1e-3, "noise_multiplier": 1e-9}
    plain = PrivateGradient(made.model, made.trained.own, expected_batch=4, **quiet)
    batches = [batch for _, batch in made.rows.batches(np.arange(24), pieces_max=64)]
    whole = plain.step(batches)
    plain.weigh(torch.tensor([0.5, 0.5], dtype=torch.float64), 0.5)
    again = plain.step(batches)
    plain.close()
    assert all(torch.allclose(whole[name], again[name], atol=1e-8) for name in whole)

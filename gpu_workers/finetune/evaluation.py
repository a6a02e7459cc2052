"""Compute a classifier's probabilities for rows, and its accuracy on a public split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import accuracy_score, f1_score

from gpu_workers.finetune.batches import Rows
from gpu_workers.finetune.classifier import Classifier

_PIECES_MAX = 2048  # of a batch without gradients


@dataclass(frozen=True)
class Metrics:
    """Scores on the caller's public rows: the accuracy, and the mean of the labels' F1."""

    rows: int
    accuracy: float
    macro_f1: float


@torch.no_grad()
def probabilities(model: Classifier, rows: Rows) -> torch.Tensor:
    """Probability of each label, float32 `[rows, labels]`, on the host. The model is left in evaluation mode."""
    model.eval()
    found = torch.empty(len(rows), model.head.out_features)
    for chosen, batch in rows.batches(np.arange(len(rows)), pieces_max=_PIECES_MAX):
        found[torch.from_numpy(chosen)] = model(batch.parts).softmax(dim=1).cpu()
    return found


def measure(model: Classifier, rows: Rows) -> Metrics:
    """Compute the scores. `rows` must be public, because the result is shown."""
    predicted = probabilities(model, rows).argmax(dim=1).numpy()
    truth = rows.labels.numpy()
    return Metrics(
        len(rows),
        float(accuracy_score(truth, predicted)),
        float(f1_score(truth, predicted, average="macro", zero_division=0.0)),
    )

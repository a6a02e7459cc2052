"""Samplers that draw the same, whatever they are given: what is left of a release is what depends on no draw.

Guarantee of the audits that use it: with these draws, two neighbouring inputs have one output. Each stub replaces a
sampler where a mechanism uses it, and returns a function of public shapes alone. A value that is a statistic plus noise
is fixed as a whole, because fixed noise would leave the statistic visible.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from core.mechanisms.sentences import clipped_cosine, deep_candidate, document_selection, routing, sentence_codes
from core.mechanisms.vectors import codebook, metric
from core.mechanisms.vectors.pure import PrivUnitMechanism
from core.mechanisms.words import replacement
from core.synthesis import aim_release, columns, marginals_release, pearl_release
from core.text import model_fills as fill_dp
from core.text.surrogates import draw as surrogate_draw
from gpu_workers.finetune import gradients
from gpu_workers.finetune import training as loop
from gpu_workers.synthesis import label_scores, reconstruction, stored_generator

WORDS_DRAWN = 3  # `dp` draws one of so many candidates, by the public scores of the place
FIRST_DRAWN = 11_000  # the first of them, in the list of candidates
WORD_DRAWN = 4_711  # `metric_dp` draws this word of the vocabulary


def _places(count: int, size: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64) % size


def _token(scored: np.ndarray, own: int | None, *, epsilon_nano: int) -> int:
    """A candidate that depends on the model's scores, which are public: a place that reads an original shows it."""
    return (FIRST_DRAWN + int(scored.sum()) % WORDS_DRAWN) % len(scored)


def _counts(size: int, codes: np.ndarray, lengths: np.ndarray, epsilon_nano: int) -> np.ndarray:
    return _places(len(lengths) * size, 3).reshape(len(lengths), size)


def _laplace(values: np.ndarray, *, scale: float, generator: Any) -> None:
    values[:] = _places(values.size, 7).reshape(values.shape) / 7


def _whole(self: Any, vectors: Any, blocks: Sequence[slice], released: np.ndarray) -> None:
    released[:] = _places(released.size, 5).reshape(released.shape) / 5


def _table(exact: np.ndarray, *, scale: int) -> np.ndarray:
    return 100 + _places(exact.size, 13).reshape(exact.shape)


def _gradient(total: np.ndarray, *, deviation: float, generator: Any) -> np.ndarray:
    return np.asarray(deviation * (_places(total.size, 3).reshape(total.shape) - 1), dtype=np.float32)


def _generator() -> np.random.Generator:
    return np.random.default_rng(1)


def fix(patch: pytest.MonkeyPatch) -> None:
    """Fix every sampler."""
    patch.setattr(sentence_codes, "noisy_counts", _counts)
    for module in (sentence_codes, routing, codebook):
        patch.setattr(module, "randomised_response", lambda codes, *, size, epsilon_nano: _places(len(codes), size))
    for module in (routing, clipped_cosine):
        patch.setattr(module, "permute_and_flip", lambda scores, *, epsilon_nano, sensitivity: 1 % len(scores))
    patch.setattr(deep_candidate, "exponential_mechanism", lambda scores, *, epsilon_nano, sensitivity: 2 % len(scores))
    for module in (document_selection, codebook):
        patch.setattr(module, "subset_selection", lambda subsets, *, size, epsilon_nano: _places(len(subsets), size))
    patch.setattr(metric, "add_l2_laplace", _laplace)
    patch.setattr(PrivUnitMechanism, "_release", _whole)
    patch.setattr(
        replacement,
        "select",
        lambda squares, *, epsilon_nano, scale, count: np.full(count, WORD_DRAWN % len(squares), dtype=np.int64),
    )
    patch.setattr(fill_dp, "select", _token)
    patch.setattr(aim_release, "exponential_mechanism", lambda scores, *, epsilon_nano, sensitivity: 1 % len(scores))
    for module in (pearl_release, marginals_release, aim_release):
        patch.setattr(module, "noisy", _table)
    patch.setattr(gradients, "noisy_sum", _gradient)
    patch.setattr(loop, "poisson_batch", lambda *, rows, batch: np.arange(batch))
    patch.setattr(loop, "random_allocation", lambda *, rows, steps: _places(rows, steps))
    patch.setattr(loop, "noisy_counts", lambda labels, *, count, epsilon_nano: 100 + _places(count, 13))
    _fix_what_follows(patch)


def _fix_what_follows(patch: pytest.MonkeyPatch) -> None:
    """Randomness that reads no private input, but would make two runs differ."""
    patch.setattr(surrogate_draw, "secrets", SimpleNamespace(token_bytes=lambda count: bytes(range(count))))
    for module in (columns, marginals_release, aim_release, stored_generator, label_scores, reconstruction):
        patch.setattr(module, "noise_generator", _generator)


@contextmanager
def fixed() -> Iterator[None]:
    """With every sampler fixed."""
    with pytest.MonkeyPatch.context() as patch:
        fix(patch)
        yield

"""The batches and the noise have the law that is accounted."""

import numpy as np
import pytest
from law_kit import follows
from scipy import stats

from core.finetune.sampling import noisy_sum, poisson_batch, random_allocation
from core.mechanisms.vectors.release import noise_generator

ALARM = 1e-6  # the chance of a false one, for each test


def test_every_row_joins_by_a_coin_of_its_own() -> None:
    rows, batch, draws = 60, 7, 20_000
    joined = np.zeros((draws, rows), dtype=np.int64)
    for draw in range(draws):
        joined[draw, poisson_batch(rows=rows, batch=batch)] = 1
    rate = batch / rows

    counts = joined.sum(axis=0)
    each = ((counts - draws * rate) ** 2 / (draws * rate * (1 - rate))).sum()
    assert stats.chi2.sf(each, rows) > ALARM

    sizes = np.bincount(joined.sum(axis=1), minlength=rows + 1)
    assert follows(sizes, stats.binom.pmf(np.arange(rows + 1), rows, rate))

    together = np.corrcoef(joined.T)[np.triu_indices(rows, 1)]
    assert np.abs(together).max() < stats.norm.isf(ALARM / len(together) / 2) / draws**0.5


def test_a_batch_may_be_empty_and_may_be_all() -> None:
    sizes = {len(poisson_batch(rows=50, batch=1)) for _ in range(300)}
    assert 0 in sizes
    assert np.array_equal(poisson_batch(rows=50, batch=50), np.arange(50))
    for rows, batch in ((10, 0), (10, 11)):
        with pytest.raises(ValueError, match="expected batch"):
            poisson_batch(rows=rows, batch=batch)


def test_every_row_joins_a_uniform_step_of_its_own() -> None:
    rows, steps, draws = 40, 7, 5_000
    drawn = np.stack([random_allocation(rows=rows, steps=steps) for _ in range(draws)])
    assert drawn.shape == (draws, rows)
    assert (drawn.min(), drawn.max()) == (0, steps - 1)
    counts = np.stack([(drawn == step).sum(axis=0) for step in range(steps)])
    each = ((counts - draws / steps) ** 2 / (draws / steps)).sum()
    assert stats.chi2.sf(each, rows * (steps - 1)) > ALARM
    assert follows(np.bincount(drawn[:, 0] * steps + drawn[:, 1], minlength=steps**2), np.ones(steps**2))
    sizes = np.bincount((drawn == 0).sum(axis=1), minlength=rows + 1)
    assert follows(sizes, stats.binom.pmf(np.arange(rows + 1), rows, 1 / steps))


def test_an_allocation_needs_rows_and_steps() -> None:
    assert random_allocation(rows=5, steps=1).tolist() == [0] * 5
    for rows, steps in ((0, 3), (5, 0)):
        with pytest.raises(ValueError, match="must be"):
            random_allocation(rows=rows, steps=steps)


def test_noise_is_normal_of_its_deviation_and_on_the_sum() -> None:
    total = np.linspace(-5, 5, 200_000).reshape(400, 500)
    noise = (noisy_sum(total, deviation=0.3, generator=noise_generator()) - total).ravel() / 0.3
    assert stats.kstest(noise, "norm").pvalue > ALARM
    assert not np.array_equal(
        noisy_sum(total, deviation=0.3, generator=noise_generator()),
        noisy_sum(total, deviation=0.3, generator=noise_generator()),
    )

"""Membership inference on canaries, with few trainings; `make audit` has more (tests/audits/training.py)."""

import pytest
from audits.bug import Bug, tried
from audits.bugs_training import BUGS
from audits.training import METHODS, NOISE, one_run, orthogonal

from core.finetune.plan import Sampling
from gpu_workers.finetune.gradients import Method

pytestmark = pytest.mark.slow("statistics")


@pytest.mark.parametrize("sampling", Sampling)
def test_canaries_tell_no_more_than_the_certificate(sampling: Sampling) -> None:
    found = orthogonal(NOISE, 12, sampling)
    assert found.bound <= found.claim


@pytest.mark.parametrize("method", METHODS)
def test_one_run_tells_no_more_than_the_certificate_and_something(method: Method) -> None:
    found = one_run(method)
    assert 0 < found.bound <= found.claim


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    assert tried(bug) is not None

"""A plan costs what it says, and what cannot be learnt is refused with the number that can."""

from dataclasses import replace

import pytest

from core.accounting.plans import Kind, PlanAdjacency, RandomAllocation, SubsampledGaussian
from core.accounting.pld import certified_epsilon
from core.errors import InvalidInput, OutOfRange
from core.finetune.inputs import check_labels
from core.finetune.plan import (
    PrivacyPlan,
    Sampling,
    by_every_accountant,
    plan_training,
    replace_one_epsilon,
    smallest_epsilon,
    steps_of,
)


@pytest.fixture(scope="module")
def plan() -> PrivacyPlan:
    return plan_training(epsilon=4.0, delta=1e-5, rows=5_000, batch=250, steps=60)


def test_the_certificate_is_under_the_target_and_near_it(plan: PrivacyPlan) -> None:
    event = SubsampledGaussian(250 / 5_000, plan.noise_multiplier)
    assert 0.99 * 4.0 < plan.certificate.epsilon <= 4.0
    assert certified_epsilon(((event, 60),), 1e-5) == pytest.approx(plan.certificate.epsilon, rel=2e-3)


def test_the_sampling_rate_is_not_under_what_is_sampled(plan: PrivacyPlan) -> None:
    for batch in (1, 7, 250, 4_999):
        rounded = replace(plan, batch=batch).sampling_rate
        assert batch / 5_000 <= rounded <= batch / 5_000 * (1 + 1e-15)


def test_a_batch_of_all_rows_is_the_plain_gaussian_mechanism() -> None:
    whole = plan_training(epsilon=2.0, delta=1e-4, rows=400, batch=400, steps=10)
    assert whole.sampling_rate == 1.0
    assert whole.certificate.loss_interval == 0.0


def test_bounds_stand_above_the_certificate_and_estimates_are_marked(plan: PrivacyPlan) -> None:
    lines = by_every_accountant(plan)
    bounds = {line.name: line.result.value for line in lines if line.result.kind is Kind.BOUND}
    assert bounds["rdp"] > bounds["pld"] == plan.certificate.epsilon
    assert {line.result.kind for line in lines if line.order} <= {Kind.ESTIMATE, Kind.NO_UNIQUE_ROOT}


def test_replacing_a_row_costs_more_than_adding_one_and_less_than_two(plan: PrivacyPlan) -> None:
    assert plan.certificate.epsilon < replace_one_epsilon(plan) < 2.2 * plan.certificate.epsilon


ALLOCATED = {"rows": 5_000, "batch": 249, "steps": 60, "sampling": Sampling.RANDOM_ALLOCATION}


@pytest.mark.slow("grid")
def test_random_allocation_is_certified_by_the_epoch() -> None:
    allocated = plan_training(epsilon=4.0, delta=1e-5, **ALLOCATED)
    event = allocated.event(PlanAdjacency.REPLACE_ONE)
    assert event == RandomAllocation(20, allocated.noise_multiplier, PlanAdjacency.REPLACE_ONE)
    assert allocated.releases == 3
    assert 0.99 * 4.0 < allocated.certificate.epsilon <= 4.0 < replace_one_epsilon(allocated)
    (certificate,) = (line.result for line in by_every_accountant(allocated) if line.name == "pld")
    assert (certificate.kind, certificate.value) == (Kind.BOUND, allocated.certificate.epsilon)


def test_random_allocation_takes_whole_epochs() -> None:
    assert steps_of(rows=5_000, batch=249, epochs=3, sampling=Sampling.RANDOM_ALLOCATION) == 60
    with pytest.raises(OutOfRange, match="whole number of epochs") as refusal:
        steps_of(rows=5_000, batch=249, epochs=2.5, sampling=Sampling.RANDOM_ALLOCATION)
    assert refusal.value.field == "epochs"
    with pytest.raises(OutOfRange, match="multiple of 20") as refusal:
        plan_training(epsilon=4.0, delta=1e-5, **ALLOCATED | {"steps": 61})  # type: ignore[arg-type]
    assert refusal.value.field == "steps"


def test_epochs_are_steps() -> None:
    assert steps_of(rows=393_000, batch=2_000, epochs=20) == 3_930
    assert steps_of(rows=100, batch=100, epochs=0.001) == 1


def test_what_cannot_be_planned_is_refused_by_its_field() -> None:
    for changed, field in [
        ({"rows": 19, "batch": 4}, "rows"), ({"batch": 5_001}, "batch"), ({"batch": 0}, "batch"),
        ({"delta": 1e-3}, "delta"), ({"steps": 0}, "steps"), ({"steps": 1_000_001}, "steps"),
        ({"epsilon": float("nan")}, "epsilon"), ({"epsilon": 1e-3}, "epsilon"),
    ]:  # fmt: skip
        params = {"epsilon": 4.0, "delta": 1e-5, "rows": 5_000, "batch": 250, "steps": 60, **changed}
        with pytest.raises(OutOfRange) as refusal:
            plan_training(**params)  # type: ignore[arg-type]
        assert refusal.value.field == field


def test_the_smallest_useful_epsilon_is_named_and_can_be_used() -> None:
    shape = {"rows": 100, "batch": 20, "steps": 50}
    with pytest.raises(OutOfRange, match=r"100 rows nothing can be learnt below epsilon \d") as refusal:
        plan_training(epsilon=0.05, delta=1e-3, **shape)
    named = float(refusal.value.detail.split()[-1])
    assert smallest_epsilon(1e-3, rows=100) <= named <= 1.1 * smallest_epsilon(1e-3, rows=100)
    assert plan_training(epsilon=named, delta=1e-3, **shape).certificate.epsilon <= named


def test_empty_and_repeated_labels_are_refused() -> None:
    for labels in [(), ("one",), ("a", "a"), ("a", "")]:
        with pytest.raises(InvalidInput) as refusal:
            check_labels(labels)
        assert refusal.value.field == "labels"


def test_counts_of_the_labels_are_a_part_of_the_target_and_of_every_line() -> None:
    terms = {"epsilon": 8.0, "delta": 1e-4, "rows": 400, "batch": 400, "steps": 10}
    counted, declared = plan_training(**terms, counted=True), plan_training(**terms)
    assert (counted.counts_epsilon, declared.counts_epsilon) == (0.5, 0.0)
    assert counted.noise_multiplier > declared.noise_multiplier
    assert 7.99 < counted.certificate.epsilon <= 8.0
    steps = certified_epsilon(((counted.event(), 10),), 1e-4)
    assert counted.certificate.epsilon == pytest.approx(steps + 0.5, abs=1e-9)
    bounds = {line.name: line.result.value for line in by_every_accountant(counted) if line.result.kind is Kind.BOUND}
    assert bounds["pld"] == pytest.approx(counted.certificate.epsilon, abs=1e-9)
    # a row that is replaced changes two counts
    without = replace(counted, counts_epsilon_nano=0)
    assert replace_one_epsilon(counted) == pytest.approx(replace_one_epsilon(without) + 1.0)
    assert plan_training(**terms | {"epsilon": 1.6}, counted=True).counts_epsilon == 0.1

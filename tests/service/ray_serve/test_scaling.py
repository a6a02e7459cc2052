"""How many replicas a load needs, and which sizes of a role are refused. No cluster is started."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from gpu_workers.engine.remote.load import Load
from service.ray_serve.scaling import replicas_needed

IDLE, BUSY, FULL = Load(0, 0), Load(1, 0), Load(2, 0)


def needed(*loads: Load, running: int | None = None, target: int | None = None, target_load: float = 1.0) -> int:
    runs = len(loads) if running is None else running
    return replicas_needed(loads, running=runs, target=runs if target is None else target, target_load=target_load)


@pytest.mark.parametrize(
    ("loads", "number"),
    [
        ([IDLE], 1),
        ([BUSY], 1),  # it works all the time, and no full batch waits behind
        ([Load(1.04, 0)], 1),  # an average of whole numbers is not one
        ([Load(1.2, 0)], 2),
        ([FULL], 2),
        ([BUSY, BUSY, BUSY], 3),
        ([FULL, BUSY, IDLE], 3),
        ([Load(0.5, 0)] * 4, 3),
        ([FULL, FULL, FULL], 6),
    ],
)
def test_each_replica_has_one_batch_on_average(loads: list[Load], number: int) -> None:
    assert needed(*loads) == number


def test_a_higher_target_needs_fewer() -> None:
    assert [needed(FULL, FULL, target_load=load) for load in (0.5, 1.0, 1.5)] == [4, 4, 3]


def test_a_request_that_waits_at_every_replica_counts_once() -> None:
    assert needed(*[Load(2, 3)] * 3) == 6  # at most twice as many; 9 batches
    assert needed(*[Load(0.5, 2)] * 4) == 4  # 2 in use and 2 that wait, not 8


def test_it_shrinks_only_where_the_load_does_not_need_the_next_one_again() -> None:
    assert needed(*[Load(0.52, 0)] * 2) == 2, "one alone would have more than the target"
    assert needed(*[Load(0.39, 0)] * 2) == 1
    assert needed(*[Load(0.88, 0)] * 8) == 8


def test_a_decision_at_most_doubles_or_halves() -> None:
    assert needed(Load(2, 30)) == 2
    assert needed(*[Load(2, 30)] * 4) == 8
    assert needed(*[IDLE] * 8) == 4
    assert needed(*[IDLE] * 3) == 2


def test_replicas_that_do_not_start_lead_to_no_further_ones() -> None:
    number, running = 1, 1
    for _ in range(20):  # all but the first one fail to start
        number = needed(*[Load(2, 9)] * running, target=number)
    assert number == 2
    assert needed(*[FULL] * 4, target=5) == 5, "8, once the fifth one has started"
    assert needed(*[FULL] * 5, target=5) == 10
    assert needed(*[Load(2, 9)] * 2, target=8) == 8, "replicas that start in place of lost ones are not given up"
    assert needed(BUSY, target=5) == 1, "they are given up when the load needs them no longer"


def test_a_replica_without_a_report_counts_as_busy() -> None:
    assert needed(IDLE, running=3) == 2
    assert needed(FULL, running=2) == 3
    assert needed(BUSY, running=2) == 2


@pytest.mark.parametrize(("running", "target"), [(0, 3), (2, 2), (2, 4)])
def test_without_any_report_the_number_stays(running: int, target: int) -> None:
    assert needed(running=running, target=target) == target


SIZES = {
    "backwards": {"roles": {"embed": {"replicas": 3, "replicas_max": 2}}},
    "from none": {"roles": {"embed": {"replicas": 0, "replicas_max": 2}}},
    "job runners": {"roles": {"jobs": {"replicas": 1, "replicas_max": 2}}},
    "a load that no worker reaches": {"target_load": 2},
    "no load": {"target_load": 0},
    "a delay below zero": {"scale_up_s": -1},
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_cannot_work_are_refused(name: str) -> None:
    application = pytest.importorskip("service.ray_serve.application")
    with pytest.raises(ValidationError):
        application.Arguments(**SIZES[name])


def test_a_fixed_number_is_given_to_ray_serve_as_it_is() -> None:
    """And a range with the policy, as the controller reads it."""
    application = pytest.importorskip("service.ray_serve.application")

    def built(**size: object) -> object:
        [workers, _] = application.build({"roles": {"embed": size}})._bound_deployment.init_args
        return workers[0]._bound_deployment

    for size in ({"replicas": 3}, {"replicas": 3, "replicas_max": 3}):
        assert (built(**size).num_replicas, built(**size)._deployment_config.autoscaling_config) == (
            size["replicas"],
            None,
        )
    [without, _] = application.build({"roles": {"fill": {"replicas": 0}}})._bound_deployment.init_args
    assert without == []
    scaling = built(replicas=1, replicas_max=4)._deployment_config.autoscaling_config
    assert (scaling.min_replicas, scaling.max_replicas) == (1, 4)
    context = SimpleNamespace(
        aggregated_metrics={"in_use": {"first": 1.5, "second": 2.0}, "waiting": {"first": 1.0, "second": 1.0}},
        current_num_replicas=2,
        target_num_replicas=2,
        config=scaling,
    )
    assert scaling.policy.get_policy()(context) == (4, {})
    context.aggregated_metrics = {}
    assert scaling.policy.get_policy()(context) == (2, {}), "no replica has reported"

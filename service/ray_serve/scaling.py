"""How many replicas of a role its load needs.

Ray Serve calls `policy` in its controller for each role. It sees no requests, because payloads do not pass through Ray;
the replicas report their load (`gpu_workers.engine.remote.load`), which is numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpu_workers.engine.remote.load import Load

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext

IN_USE = "in_use"
WAITING = "waiting"
_TOLERANCE = 0.05  # of a replica: an average is not a whole number
_SHRINK_TO = 0.8  # of the target load, so that fewer replicas do not need the next one again at once


def replicas_needed(loads: Sequence[Load], *, running: int, target: int, target_load: float) -> int:
    """The number of replicas that brings the load of each to `target_load`.

    `loads`: of those of the `running` replicas that have reported. `target`: the present number that is aimed at, with
    replicas that have not started. One replica counts as one with the load `target_load` until it reports.

    A request that waits waits at every replica, since a gateway asks the next one when all slots of the first are
    taken. So slots in use are added up over the replicas, and waiting requests are averaged.

    The number shrinks only as far as the load of each stays below `_SHRINK_TO` of the target, and at most to half of
    those that run in one decision. It does not grow while replicas are starting, so those that cannot start lead to no
    further ones. Otherwise one decision at most doubles it. Without a report, the number stays.
    """
    if not loads:
        return target
    batches = sum(load.in_use for load in loads) + sum(load.waiting for load in loads) / len(loads)
    silent = running - len(loads)
    needed = math.ceil(batches / target_load - _TOLERANCE) + silent
    if needed <= running:
        roomy = math.ceil(batches / (_SHRINK_TO * target_load) - _TOLERANCE) + silent
        needed = max(math.ceil(running / 2), min(running, roomy))
    return min(needed, target if running < target else 2 * running)


def policy(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """See `replicas_needed`. Ray Serve applies the limits and the delays of the role's configuration."""
    reported = context.aggregated_metrics or {}
    waiting = reported.get(WAITING, {})
    loads = [Load(in_use, waiting.get(replica, 0.0)) for replica, in_use in reported.get(IN_USE, {}).items()]
    needed = replicas_needed(
        loads,
        running=context.current_num_replicas,
        target=context.target_num_replicas,
        target_load=context.config.target_ongoing_requests,  # type: ignore[union-attr]
    )
    return needed, {}

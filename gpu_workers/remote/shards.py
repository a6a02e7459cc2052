"""Sharded jobs on a Ray cluster: the entry point prepares and finishes, and actors draw the parts.

Guarantee: Ray carries numbers, names and digests of encrypted files, tokens that work once, and fixed words. An actor
gets the order and the key from the gateway. It draws a part only after the part was charged, which a repetition does
not do again. Of the files of a part that was drawn twice, those that came first are used.

This is the one module that imports Ray, and only where a job is sharded.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

from core.errors import JobFailed
from gpu_workers.jobs.process import job_function, run_job
from gpu_workers.jobs.protocol import Charge, JobOrder, ReportProgress, Sharded, Succeeded, versions
from gpu_workers.remote.channel import Channel, ClusterSettings, keep_quiet, memory_folder
from gpu_workers.remote.wire import OUTCOME

ACTORS_MAX = 1000  # that wait for nodes, which an autoscaler may add, or work
_DEATHS_MAX = 3  # of actors at one part; more often, the part fails the job
_STARTS_FAILED_MAX = 100
_LEAVE_S_MAX = 5.0
_SHOW_S = 2.0  # between two looks at the parts that are written


def _unreported(stage: str, fraction: float, metrics: Mapping[str, float] | None = None, /) -> None:
    """An actor knows its own parts alone: the entry point reports the progress of all."""


class Shard:
    """An actor. Its methods return an outcome as JSON, and raise nothing: Ray would keep the text of an error."""

    def __init__(self, job_id: str, token: str, names: list[str]) -> None:
        """Fetch the files of these names. A failure ends the process, as the death of its node would."""
        keep_quiet()
        try:
            folder, self._lock = memory_folder()
            self._channel = Channel(job_id, folder, token, names)
            order, exchange = self._channel.order, self._channel.exchange
            self._sharded = cast("Sharded[Any]", job_function(order.entry_point))
            self._plan = self._sharded.prepare(order, exchange.report, exchange)
        except BaseException:
            os._exit(1)

    def ready(self) -> str:
        return OUTCOME.dump_json(Succeeded({})).decode()

    def leave(self) -> None:
        """Remove the files, and end the process."""
        self._channel.leave()

    def draw(self, part: int) -> str:
        """Draw a part, and store its files. The result lists them."""

        def work(order: JobOrder, _: ReportProgress, charge: Charge) -> dict[str, Any]:
            self._sharded.draw(order, self._plan, [part], _unreported, charge)
            return {name: list(each) for name, each in self._channel.save().items()}

        return OUTCOME.dump_json(run_job(self._channel.order, self._channel.exchange, work)).decode()


class ShardedOnCluster:
    """The `JobFunction` of an entry point for a sharded job."""

    def __init__(self, channel: Channel, sharded: Sharded[Any], job_id: str) -> None:
        self._channel = channel
        self._sharded = sharded
        self._job_id = job_id

    def __call__(self, order: JobOrder, report: ReportProgress, charge: Charge) -> dict[str, Any]:
        plan = self._sharded.prepare(order, report, charge)
        missing = list(self._sharded.missing(order, plan))
        if missing:
            self._channel.checkpoint()  # of the plan, which the actors fetch
            self._draw(order, missing, report, lambda: self._sharded.draw(order, plan, [], report, charge))
        return self._sharded.finish(order, plan)

    def _draw(self, order: JobOrder, missing: list[int], report: ReportProgress, show: Callable[[], None]) -> None:
        import ray

        ray.init(address="auto", log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=False)
        has_gpus = ray.cluster_resources().get("GPU", 0) > 0
        needs = {"num_gpus": 1} if has_gpus else {"num_cpus": max(1, ClusterSettings().job_threads)}
        actor = ray.remote(max_restarts=0, max_task_retries=0, **needs)(Shard)
        names, wanted, drawn = [*versions(order.folder)], len(missing), 0
        deaths: Counter[int | None] = Counter()
        actors: set[Any] = set()
        leaving: list[Any] = []
        shown_at = time.monotonic()
        running: dict[Any, tuple[Any, int | None]] = {}  # the part of each actor that works; None while it starts
        try:
            while drawn < wanted:
                while len(actors) < min(ACTORS_MAX, wanted - drawn):
                    shard = actor.remote(self._job_id, self._channel.token(), names)
                    actors.add(shard)
                    running[shard.ready.remote()] = shard, None
                (done,), _ = ray.wait([*running])
                shard, part = running.pop(done)
                try:
                    answer = OUTCOME.validate_json(ray.get(done))
                except ray.exceptions.RayError:  # the actor or its node has died
                    actors.discard(shard)
                    deaths[part] += 1
                    if deaths[part] >= (_STARTS_FAILED_MAX if part is None else _DEATHS_MAX):
                        raise JobFailed("Processes of the job die on the cluster.", reason="shard-died") from None
                    if part is not None:
                        missing.append(part)
                    continue
                if not isinstance(answer, Succeeded):
                    raise answer.problem
                if part is not None:
                    drawn += 1
                    self._channel.add({name: (blob, size) for name, (blob, size) in answer.result.items()})
                    report("drawing", drawn / wanted)
                    if drawn == wanted or time.monotonic() - shown_at >= _SHOW_S:
                        show()
                        shown_at = time.monotonic()
                if missing:
                    part = missing.pop(0)
                    running[shard.draw.remote(part)] = shard, part
                else:
                    actors.discard(shard)  # idle; one that is needed again is started again
                    leaving.append(shard.leave.remote())
            ray.wait(leaving, num_returns=len(leaving), timeout=_LEAVE_S_MAX)
        finally:
            ray.shutdown()

"""The limits of a gateway's jobs, from its settings."""

from __future__ import annotations

from dataclasses import dataclass

from service.config.settings import Settings
from service.jobs.attempt import AttemptLimits


@dataclass(frozen=True)
class RunnerLimits:
    """`running_max`: 0 where other gateways run the jobs. `attempt`: the limits of one process. `alone`: whether no
    other gateway can use the ledger."""

    running_max: int
    waiting_max: int
    tenant_share: float
    attempts_max: int
    retention_s: float
    alone: bool
    attempt: AttemptLimits


def runner_limits(settings: Settings) -> RunnerLimits:
    return RunnerLimits(
        running_max=settings.jobs_running_max if "jobs" in settings.serves else 0,
        waiting_max=settings.jobs_waiting_max,
        tenant_share=settings.queue_tenant_share,
        attempts_max=settings.job_attempts_max,
        retention_s=settings.job_retention_s,
        alone=settings.redis_url is None,
        attempt=AttemptLimits(
            seconds_max=settings.job_seconds_max,
            turn_s=settings.job_turn_s,
            memory_bytes_max=settings.job_memory_bytes_max,
            priority=settings.job_priority,
        ),
    )

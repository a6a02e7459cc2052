"""The settings of jobs whose processes run on other machines, and of the job runners there."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class JobRunnerSettings(BaseModel):
    """Where the processes of jobs run. The addresses, the token and TLS are those of workers."""

    jobs: Literal["local", "remote", "ray"] = "local"
    jobs_remote_max: int = Field(16, ge=1, le=1000)
    job_places: int = Field(1, ge=1, le=64)


def check_jobs(settings: Any) -> None:
    """Raises ValueError for settings of which one lacks another, or that cannot be used together."""
    if settings.jobs == "local":
        return
    if settings.workers_token is None:
        raise ValueError("JOBS needs WORKERS_TOKEN, which the job runners have, too")
    if settings.jobs == "remote" and "jobs" not in {each.partition("=")[0] for each in settings.workers}:
        raise ValueError('JOBS=remote needs WORKERS of the role jobs, for example ["jobs=10.0.0.5:7004"]')
    if settings.jobs == "ray" and not settings.workers_directory:
        raise ValueError("JOBS=ray needs WORKERS_DIRECTORY, for example http://10.0.0.5:8000")
    if settings.processes > 1 and settings.engine == "local":
        raise ValueError("several front ends (PROCESSES) with JOBS=remote or ray need an ENGINE of other machines, too")

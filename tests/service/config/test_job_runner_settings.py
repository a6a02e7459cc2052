"""Settings of jobs on other machines that cannot be used together are refused, and what follows from the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gpu_workers.jobs.places import LocalPlaces
from service.config.job_runner_options import jobs_at_once, make_places
from service.config.settings import Settings

TOKEN = "a-token-of-the-job-runners"
REMOTE: dict[str, Any] = {"jobs": "remote", "workers": ("jobs=127.0.0.1:7004",), "workers_token": TOKEN}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workers_token": None}, "JOBS needs WORKERS_TOKEN"),
        ({"workers": ()}, "WORKERS of the role jobs"),
        ({"workers": ("embed=127.0.0.1:7004",)}, "WORKERS of the role jobs"),
        ({"workers": ("job=127.0.0.1:7004",)}, "the roles are embed, sanitize, fill, jobs"),
        ({"jobs": "ray"}, "JOBS=ray needs WORKERS_DIRECTORY"),
        ({"jobs": "elsewhere"}, "Input should be"),
        ({"processes": 2}, "several front ends"),
        ({"job_places": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Settings(data_dir=tmp_path, **(REMOTE | changes))


def test_by_default_jobs_run_beside_the_gateway(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert isinstance(make_places(settings, tmp_path), LocalPlaces)
    assert jobs_at_once(settings) == 1
    assert jobs_at_once(Settings(data_dir=tmp_path, **REMOTE)) == 16


def test_an_address_of_another_machine_needs_tls(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, **(REMOTE | {"workers": ("jobs=10.0.0.6:7004",)}))
    with pytest.raises(ValueError, match="needs TLS"):
        make_places(settings, tmp_path)

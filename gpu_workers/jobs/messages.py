"""Messages between the gateway and the process of a job, over a socket that only these two can access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from core.files.encrypted_file import read_encrypted
from core.job_errors import JobFailed

INPUT = "input"  # the file that holds the uploaded data
# How a job shares the cores with requests: see `gpu_workers/jobs/process.py`.
Priority = Literal["idle", "low", "normal"]
# Returns once the job's cost is spent in the ledger. A job draws noise only after this call. Kinds that charge nothing
# do not call it.
Charge = Callable[[], None]


class ReportProgress(Protocol):
    """Reports a stage (a fixed label), the fraction of the whole job in [0, 1], and metrics that are public or
    released, with the names of `core.ledger.jobs.METRICS`. A metric keeps its last value until it is reported again."""

    def __call__(self, stage: str, fraction: float, metrics: Mapping[str, float] | None = None, /) -> None: ...


@dataclass(frozen=True)
class JobOrder:
    """One job.

    entry_point: the `JobFunction` that runs it, as `module:function`. It comes from the gateway's registry of kinds.

    folder: holds the job's encrypted files, under `key`.

    spec: the parameters, in the form that the kind of job defines.

    memory_bytes_max: what the process may allocate; 0 for no limit. See `gpu_workers/jobs/process.py`.
    """

    entry_point: str
    folder: Path
    key: bytes = field(repr=False)
    spec: Any
    priority: Priority = "idle"
    memory_bytes_max: int = 0

    def received(self) -> Iterator[bytes]:
        """Yield the uploaded data in chunks. Raises JobFilesLost."""
        return read_encrypted(self.folder / INPUT, self.key, INPUT)


@dataclass(frozen=True)
class Progress:
    stage: str
    fraction: float
    metrics: Mapping[str, float] | None = None


@dataclass(frozen=True)
class ChargeRequested:
    """The job is about to draw noise. It draws none before it receives `Charged`."""


@dataclass(frozen=True)
class Charged:
    """The gateway's answer: the ledger has spent the job's hold, in this attempt or an earlier one."""


@dataclass(frozen=True)
class Succeeded:
    """`result` holds counts, names and fixed words, never text."""

    result: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    problem: JobFailed


# Runs a job and returns its result: counts, names and fixed words, never text. Raises JobFailed.
JobFunction = Callable[[JobOrder, ReportProgress, Charge], dict[str, Any]]

"""The registry of job kinds, one row for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.accounting.calculations import Calculations
from service.config.settings import Settings
from service.domains.job_kind import DomainKind
from service.files.stored import StoredFiles
from service.finetune.job_kind import FinetuneKind
from service.infill.job_kind import InfillKind
from service.jobs.kind import JobKind, JobKinds
from service.sanitize.policies import Policies
from service.sanitize.recognisers.store import Recognisers
from service.synthesis.job_kind import SynthesisKind
from service.workers import Workers


@dataclass(frozen=True)
class KindParts:
    """The parts of a gateway that kinds of jobs are built from."""

    settings: Settings
    policies: Policies
    recognisers: Recognisers
    workers: Workers
    calculations: Calculations
    files: StoredFiles


JOB_KINDS: list[Callable[[KindParts], JobKind]] = [
    lambda parts: DomainKind(parts.settings, files=parts.files),
    lambda parts: InfillKind(
        parts.settings,
        policies=parts.policies,
        recognisers=parts.recognisers,
        workers=parts.workers,
        files=parts.files,
    ),
    lambda parts: SynthesisKind(parts.settings),
    lambda parts: FinetuneKind(parts.settings, calculations=parts.calculations),
]


def job_kinds(parts: KindParts) -> JobKinds:
    """The registered kinds, built for one gateway."""
    return JobKinds(make(parts) for make in JOB_KINDS)

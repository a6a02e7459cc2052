"""What each kind of job is made of: from what a request asked for to what the job's process is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_workers.jobs.messages import DomainSpec
from service.domains import pack_path
from service.jobs.files import JobFiles
from service.settings import Settings


@dataclass(frozen=True)
class Kinds:
    """Turns the stored fields of a job into the `spec` of its process."""

    settings: Settings
    files: JobFiles

    def spec(self, kind: str, owner: str, job_id: str, fields: Mapping[str, Any]) -> Any:
        """Raises ValueError for a kind that this version does not know."""
        if kind == "domain":
            pack = pack_path(self.settings.data_dir, owner, fields["name"])
            return domain_spec(self.settings, fields, (str(self.files.artifact(owner, job_id)), str(pack)))
        raise ValueError("unknown kind of job")


def domain_spec(settings: Settings, fields: Mapping[str, Any], targets: tuple[str, ...]) -> DomainSpec:
    """The domain job of these settings."""
    return DomainSpec(
        name=fields["name"],
        source=fields["source"],
        licence=fields["licence"],
        targets=targets,
        device=settings.devices[0],
        threads=settings.job_threads,
        encoder_path=str(settings.encoder_path) if settings.encoder_path else None,
        documents_max=settings.domain_documents_max,
        document_chars_max=settings.document_chars_max,
    )

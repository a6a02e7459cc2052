"""What each kind of job is made of: from what a request asked for to what the job's process is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.finetune.hyperparameters import Hyperparameters
from core.text.policy import K_DEFAULT
from gpu_workers.jobs.messages import DomainSpec, FinetuneSpec, InfillSpec, SynthesisSpec
from service.config.settings import FINETUNE_BUNDLED, Settings
from service.domains.store import pack_path
from service.infill.store import model_path
from service.jobs.files import JobFiles
from service.sanitize.schemas import Mask

SYNTHESIS_STEPS_DEFAULT = 1_000


@dataclass(frozen=True)
class Kinds:
    """Turns the stored fields of a job into the `spec` of its process."""

    settings: Settings
    files: JobFiles

    def spec(self, kind: str, owner: str, job_id: str, fields: Mapping[str, Any]) -> Any:
        """Raises ValueError for a kind that this version does not know, InvalidInput for a mask that it does not."""
        if kind == "domain":
            pack = pack_path(self.settings.data_dir, owner, fields["name"])
            return domain_spec(self.settings, fields, (str(self.files.artifact(owner, job_id)), str(pack)))
        if kind == "infill":
            model = model_path(self.settings.data_dir, owner, fields["name"])
            return infill_spec(self.settings, fields, (str(self.files.artifact(owner, job_id)), str(model)))
        if kind == "synthesis":
            artifact = str(self.files.artifact(owner, job_id))
            return synthesis_spec(self.settings, fields, (artifact,), report=str(self.files.report(owner, job_id)))
        if kind == "finetune":
            return finetune_spec(self.settings, fields, (str(self.files.artifact(owner, job_id)),))
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


def infill_spec(settings: Settings, fields: Mapping[str, Any], targets: tuple[str, ...]) -> InfillSpec:
    """The infill job of these settings."""
    return InfillSpec(
        name=fields["name"],
        targets=targets,
        policy=Mask.model_validate(fields["mask"]).masking(),
        fill=fields["fill"]["mode"],
        k=fields["fill"]["k"] or K_DEFAULT,
        rounds=fields["rounds"],
        steps=fields["steps"],
        device=settings.devices[0],
        threads=settings.job_threads,
        tagger=settings.tagger,
        allow_lists_dir=str(settings.allow_lists_dir) if settings.allow_lists_dir else None,
        documents_max=settings.infill_documents_max,
        document_chars_max=settings.document_chars_max,
        places_max=settings.fill_slots_max,
    )


def synthesis_spec(
    settings: Settings, fields: Mapping[str, Any], targets: tuple[str, ...], *, report: str
) -> SynthesisSpec:
    """The synthesis job of these settings."""
    # late: with scipy, which a front end without such jobs does without
    from core.synthesis.plan import BINS_DEFAULT, DESIGN_DEFAULT, FREQUENCIES_DEFAULT
    from core.synthesis.pricing import RecordBudget

    return SynthesisSpec(
        name=fields["name"],
        targets=targets,
        report=report,
        declared=fields["table"],
        method=fields["method"],
        budget=RecordBudget(**fields["budget"]),
        rows_are_public=fields["row_count"] == "public",
        outside=fields["outside"],
        design=fields["design"] or DESIGN_DEFAULT,
        frequencies=fields["frequencies"] or FREQUENCIES_DEFAULT,
        bins=fields["bins"] or BINS_DEFAULT,
        steps=fields["steps"] or SYNTHESIS_STEPS_DEFAULT,
        rows_max=settings.synthesis_rows_max,
        device=settings.devices[0],
        threads=settings.job_threads,
    )


def finetune_spec(settings: Settings, fields: Mapping[str, Any], targets: tuple[str, ...]) -> FinetuneSpec:
    """The fine-tuning job of these settings. Raises KeyError for an encoder that the operator has taken away."""
    from core.finetune.pricing import budget_of  # late: as above

    model = fields["model"]
    return FinetuneSpec(
        name=fields["name"],
        targets=targets,
        labels=tuple(fields["labels"]),
        pairs=fields["pairs"],
        method=fields["method"],
        model=model,
        model_path=None if model == FINETUNE_BUNDLED else str(settings.finetune_models[model]),
        budget=budget_of(fields["budget"]),
        hyperparameters=Hyperparameters(fields["rank"], fields["pieces_max"], fields["learning_rate"]),
        public_rows_max=settings.finetune_public_rows_max,
        text_chars_max=settings.document_chars_max,
        device=settings.devices[0],
        threads=settings.job_threads,
    )

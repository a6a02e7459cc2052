"""The kinds of jobs that a job runner knows, and the form in which their specifications travel.

Guarantee: a runner runs the functions of `JOB_SPECS` alone. A specification is built from the classes of a table, as
tasks of workers are (`gpu_workers.engine.remote.codec`), and is of the class that its kind has.

What a specification says of a machine - its device, threads, models and lists - is taken from the runner's settings. A
path within the job's folder travels relative to it. A file of the gateway's data directory travels with the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from core.finetune.hyperparameters import Hyperparameters
from core.finetune.pricing import TrainingBudget, budget_of
from core.job_errors import JobFailed
from core.synthesis.pricing import RecordBudget
from core.text.own_recognisers.stored import OwnReference, RecogniserFile
from core.text.policy import MaskPolicy
from gpu_workers.code_digest import code_digest
from gpu_workers.domains.spec import DomainSpec
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.finetune.spec import FinetuneSpec
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.jobs.folder import OUTPUTS, is_plain
from gpu_workers.synthesis.spec import SynthesisSpec

# The entry point of each kind, with the class of its specification. A test compares it with the gateway's registry.
JOB_SPECS: dict[str, type] = {
    "gpu_workers.domains.job:run": DomainSpec,
    "gpu_workers.infill.job:run": InfillSpec,
    "gpu_workers.synthesis.job:run": SynthesisSpec,
    "gpu_workers.finetune.job:run": FinetuneSpec,
}
_PARTS = (Hyperparameters, RecordBudget, MaskPolicy, OwnReference, RecogniserFile)
_NEEDED = re.compile(r"needed-[0-9]{1,6}")


def job_codec() -> Codec:
    """The codec of gateways and job runners."""
    return Codec((*_PARTS, *dict.fromkeys(JOB_SPECS.values())), code=code_digest())


@dataclass(frozen=True)
class Machine:
    """What the settings of a runner decide, in place of what the gateway's specification says.

    `models`: the folders of the encoders that the operator offers for fine-tuning, by name.
    """

    device: str = "cpu"
    threads: int = 0
    encoder_path: str | None = None
    tagger: str | None = None
    allow_lists_dir: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Travelling:
    """A specification on its way. `outputs`: the files that the job makes, relative to its folder. `needed`: files of
    the gateway's machine that travel with the job, by the names that stand in `spec`."""

    spec: Any
    outputs: tuple[str, ...]
    needed: Mapping[str, Path]


def departing(spec: Any, folder: Path) -> Travelling:
    """The form that leaves the gateway. Raises ValueError for targets outside the job's folder."""
    own = {each.name for each in fields(spec)}
    changes: dict[str, Any] = {}
    needed: dict[str, Path] = {}
    outputs: list[str] = []
    if "targets" in own:
        changes["targets"] = tuple(_relative(target, folder) for target in spec.targets)
        for target in map(Path, changes["targets"]):
            outputs += [str(target), str(target.with_suffix(".md"))]
    if "report" in own:
        changes["report"] = _relative(spec.report, folder)
        outputs.append(changes["report"])
    if isinstance(spec, FinetuneSpec):
        changes["budget"] = spec.budget.stored()  # as a stored job has it: members of enumerations do not travel
    if isinstance(spec, InfillSpec):
        references = []
        for number, reference in enumerate(spec.policy.own):
            needed[f"needed-{number}"] = Path(reference.file.path)
            references.append(replace(reference, file=replace(reference.file, path=f"needed-{number}")))
        changes["policy"] = replace(spec.policy, own=tuple(references))
    return Travelling(replace(spec, **changes), tuple(outputs), needed)


def arrived(spec: Any, entry_point: str, folder: Path, needed: Path, machine: Machine) -> Any:
    """The specification for a process of this machine, which works in `folder`; files that travelled are in `needed`.

    Raises JobFailed for a kind, a model or a path that the runner does not have.
    """
    if entry_point not in JOB_SPECS or not _is_of(spec, JOB_SPECS[entry_point]):
        raise JobFailed("The job runner does not know this kind of job.", reason="unknown-kind")
    own = {each.name for each in fields(spec)}
    changes: dict[str, Any] = {}
    for name in own & {"device", "threads", "encoder_path", "allow_lists_dir"}:
        changes[name] = getattr(machine, name)
    if "tagger" in own and machine.tagger is not None:
        changes["tagger"] = machine.tagger
    if "targets" in own:
        changes["targets"] = tuple(str(_output(target, folder)) for target in spec.targets)
    if "report" in own:
        changes["report"] = str(_output(spec.report, folder))
    if isinstance(spec, FinetuneSpec):
        changes["budget"] = _budget(spec.budget)
        if spec.model_path is not None:
            if spec.model not in machine.models:
                raise JobFailed("The job runner does not have this encoder.", reason="model-absent")
            changes["model_path"] = machine.models[spec.model]
    if isinstance(spec, InfillSpec):
        changes["policy"] = replace(spec.policy, own=tuple(_placed(each, needed) for each in spec.policy.own))
    return replace(spec, **changes)


def is_output(name: object) -> bool:
    """Whether this is the relative path of a file that a job makes."""
    return isinstance(name, str) and name.startswith(f"{OUTPUTS}/") and is_plain(name.removeprefix(f"{OUTPUTS}/"))


def is_needed(name: object) -> bool:
    """Whether this is the name of a file that travels with a job."""
    return isinstance(name, str) and _NEEDED.fullmatch(name) is not None


def _is_of(spec: Any, kind: type) -> bool:
    return type(spec) is kind


def _relative(path: str, folder: Path) -> str:
    found = Path(path).relative_to(folder).as_posix()
    if not is_output(found):
        raise ValueError("a job makes files in the folder `out` of its own")
    return found


def _output(name: str, folder: Path) -> Path:
    if not is_output(name):
        raise JobFailed("The job runner does not write there.", reason="unknown-path")
    return folder / name


def _placed(reference: OwnReference, needed: Path) -> OwnReference:
    if not is_needed(reference.file.path):
        raise JobFailed("The job runner does not read there.", reason="unknown-path")
    return replace(reference, file=replace(reference.file, path=str(needed / reference.file.path)))


def _budget(stored: Any) -> TrainingBudget:
    try:
        return budget_of(stored)
    except (TypeError, KeyError, ValueError):
        raise JobFailed("The job runner cannot read the plan.", reason="unknown-kind") from None

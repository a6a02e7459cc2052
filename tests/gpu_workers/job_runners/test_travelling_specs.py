"""Specifications travel whole, take a runner's own machine, and lead to no other path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.accounting.answers import Certificate
from core.finetune.hyperparameters import Hyperparameters
from core.finetune.plan import PrivacyPlan, Sampling
from core.finetune.pricing import TrainingBudget
from core.job_errors import JobFailed
from core.synthesis.pricing import record_budget
from core.text.own_recognisers.stored import OwnReference, RecogniserFile
from core.text.policy import MaskPolicy
from gpu_workers.domains.spec import DomainSpec
from gpu_workers.finetune.spec import FinetuneSpec
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.job_runners.kinds import JOB_SPECS, Machine, arrived, departing, is_output, job_codec
from gpu_workers.job_runners.order import is_job_file
from gpu_workers.synthesis.spec import SynthesisSpec
from service.domains.job_kind import DomainKind
from service.finetune.job_kind import FinetuneKind
from service.infill.job_kind import InfillKind
from service.registry import JOB_KINDS
from service.synthesis.job_kind import SynthesisKind

GATEWAY, RUNNER = Path("/gateway/jobs/1"), Path("/runner/work")
NEEDED = Path("/runner/needed")
MACHINE = Machine("cuda:0", 3, "/runner/encoder", "off", "/runner/lists", {"large": "/runner/large"})
TARGETS = (str(GATEWAY / "out/1.safetensors"),)
OWN = OwnReference("badge", "BADGE", RecogniserFile("/gateway/recognisers/x", "0" * 64, b"key", "label"))


def finetune_spec(**options: Any) -> FinetuneSpec:
    certificate = Certificate(2.9, 1e-5, 1e-4)
    plan = PrivacyPlan(3.0, 1e-5, 200, 20, 10, 1.7, certificate, Sampling.RANDOM_ALLOCATION)
    budget = TrainingBudget(plan, 5_000_000_000, 10_000_000_000)
    terms: dict[str, Any] = {"model": "large", "model_path": "/gateway/large"} | options
    return FinetuneSpec(
        "c", TARGETS, ("a", "b"), False, "lora", budget=budget, hyperparameters=Hyperparameters(),
        public_rows_max=9, text_chars_max=99, **terms,
    )  # fmt: skip


def specs() -> dict[str, Any]:
    budget = record_budget(1.0, 1e-5)
    return {
        DomainKind.entry_point: DomainSpec("law", "made up", "none", TARGETS, encoder_path="/gateway/encoder"),
        InfillKind.entry_point: InfillSpec("t", TARGETS, MaskPolicy(own=(OWN,)), "topk", 10, 1, 20),
        SynthesisKind.entry_point: SynthesisSpec(
            "s", TARGETS, str(GATEWAY / "out/1.html"), {"columns": [{"name": "a"}]}, "pearl", budget, True, "refuse",
            "d", 10, 5, 20, 1000,
        ),
        FinetuneKind.entry_point: finetune_spec(),
    }  # fmt: skip


def sent(spec: Any, entry_point: str, machine: Machine = MACHINE) -> Any:
    codec = job_codec()
    received = codec.decode(codec.encode(departing(spec, GATEWAY).spec))
    return arrived(received, entry_point, RUNNER, NEEDED, machine)


def test_every_registered_kind_can_run_elsewhere() -> None:
    kinds = [DomainKind, InfillKind, SynthesisKind, FinetuneKind]
    assert len(JOB_KINDS) == len(kinds), "a new kind needs a row in JOB_SPECS and one in this test"
    assert set(JOB_SPECS) == {kind.entry_point for kind in kinds} == set(specs())


def test_a_specification_arrives_as_it_was_but_for_what_the_machine_decides() -> None:
    for entry_point, spec in specs().items():
        expected = {"targets": (str(RUNNER / "out/1.safetensors"),), "device": "cuda:0", "threads": 3}
        if isinstance(spec, DomainSpec):
            expected["encoder_path"] = "/runner/encoder"
        if isinstance(spec, SynthesisSpec):
            expected["report"] = str(RUNNER / "out/1.html")
        if isinstance(spec, FinetuneSpec):
            expected["model_path"] = "/runner/large"
        if isinstance(spec, InfillSpec):
            own = replace(OWN, file=replace(OWN.file, path=str(NEEDED / "needed-0")))
            expected |= {"tagger": "off", "allow_lists_dir": "/runner/lists", "policy": MaskPolicy(own=(own,))}
        found = sent(spec, entry_point)
        assert found == replace(spec, **expected)
        assert repr(found) == repr(replace(spec, **expected)), "members of enumerations are such"


def test_the_plan_of_a_training_is_the_one_that_is_charged() -> None:
    spec = finetune_spec()
    plan = sent(spec, FinetuneKind.entry_point).budget.plan
    assert plan.sampling is Sampling.RANDOM_ALLOCATION
    assert (plan, plan.releases) == (spec.budget.plan, spec.budget.plan.releases)


def test_what_travels_with_a_job_and_what_it_makes() -> None:
    for entry_point, spec in specs().items():
        found = departing(spec, GATEWAY)
        assert all(map(is_output, found.outputs))
        assert set(found.outputs) >= {"out/1.safetensors", "out/1.md"}
        needed = {"needed-0": Path("/gateway/recognisers/x")} if entry_point == InfillKind.entry_point else {}
        assert found.needed == needed
        assert "/gateway" not in str(found.spec).replace("/gateway/encoder", "").replace("/gateway/large", "")


def test_an_encoder_that_the_runner_does_not_have() -> None:
    with pytest.raises(JobFailed) as found:
        sent(finetune_spec(model="other"), FinetuneKind.entry_point)
    assert found.value.reason == "model-absent"
    assert sent(finetune_spec(model="bundled", model_path=None), FinetuneKind.entry_point).model_path is None


@pytest.mark.parametrize("entry_point", ["os:system", "gpu_workers.synthesis.job:run", ""])
def test_an_entry_point_that_is_no_kind_or_of_another_specification(entry_point: str) -> None:
    with pytest.raises(JobFailed) as found:
        sent(specs()[DomainKind.entry_point], entry_point)
    assert found.value.reason == "unknown-kind"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "out/../../x", "out/a/b", "out/.x", "out/", "key", ""])
def test_paths_outside_the_folder_of_what_a_job_makes(path: str) -> None:
    spec = DomainSpec("law", "made up", "none", (path,))
    with pytest.raises(JobFailed):
        arrived(spec, DomainKind.entry_point, RUNNER, NEEDED, MACHINE)
    with pytest.raises(ValueError, match=r"folder|subpath"):
        departing(replace(spec, targets=(str(GATEWAY / path) if path else str(GATEWAY),)), GATEWAY)
    own = replace(OWN, file=replace(OWN.file, path=path))
    masked = replace(specs()[InfillKind.entry_point], targets=("out/1.x",), policy=MaskPolicy(own=(own,)))
    with pytest.raises(JobFailed):
        arrived(masked, InfillKind.entry_point, RUNNER, NEEDED, MACHINE)


@pytest.mark.parametrize(
    "name", ["key", "spec", "owner", "run.lock", "out", "..", ".x", "a/b", "/a", "", "a\0", 7, None]
)
def test_names_that_no_process_of_a_job_writes(name: object) -> None:
    assert not is_job_file(name)


def test_names_of_inputs_and_checkpoints() -> None:
    assert all(map(is_job_file, ("input", "release", "training-1", "shard-000000", "filled-1-000000")))

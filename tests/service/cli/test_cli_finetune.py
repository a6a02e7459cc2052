"""`privacy-gateway finetune`: files in, a classifier out, charged once however often it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_kit import Finished, run_command
from corpus_kit import json_lines
from finetune_kit import LABELS, labelled
from gateway_kit import Gateway

from gpu_workers.finetune.artifact import load_classifier

RECORD = {"epsilon": 60.0, "delta": 2e-3, "basic_delta": 2e-3}


def run(gateway: Gateway, key: str, folder: Path, **options: str) -> Finished:
    terms = {
        "epsilon": "50",
        "delta": "1e-3",
        "rows": "40",
        "batch": "8",
        "steps": "3",
        "weight-decay": "0.01",
        "url": gateway.url,
    }
    files = {"data": folder / "towns.jsonl", "public": folder / "public.jsonl", "out": folder / "out"}
    given = {**files, **terms, **options}
    arguments = [str(part) for name, value in given.items() for part in (f"--{name}", value)]
    arguments += [part for label in LABELS for part in ("--label", label)]
    return run_command(None, "finetune", *arguments, environment={"PRIVACY_GATEWAY_API_KEY": key})


@pytest.mark.slow("training")
def test_files_in_and_a_classifier_out(real_gateway: Gateway, tmp_path: Path) -> None:
    tenant = real_gateway.tenant(record=RECORD)
    (tmp_path / "towns.jsonl").write_bytes(json_lines(labelled(40)))
    (tmp_path / "public.jsonl").write_bytes(json_lines(labelled(10)))
    made = run(real_gateway, tenant.key, tmp_path)
    assert made.returncode == 0, made.stderr
    assert "on 10 public rows: accuracy" in made.stdout
    spent = tenant.committed("record")
    assert f"spent: epsilon {spent:g}" in made.stdout
    info, _, _ = load_classifier(tmp_path / "out" / "towns.safetensors")
    assert (info.labels, info.steps, info.hyperparameters.weight_decay) == (LABELS, 3, 0.01)
    assert "Epsilon by every accountant" in (tmp_path / "out" / "towns.md").read_text()

    assert info.sampling == "poisson"

    again = run(real_gateway, tenant.key, tmp_path, method="lora")
    assert (again.returncode, again.stdout) == (0, made.stdout), "the same job"
    assert tenant.committed("record") == spent
    other = run(real_gateway, tenant.key, tmp_path, name="other")
    assert other.returncode == 1
    assert "budget-exhausted" in other.stderr
    assert "give the tenant's API key" in run(real_gateway, "", tmp_path).stderr
    part = run(real_gateway, tenant.key, tmp_path, sampling="random_allocation")
    assert (part.returncode, "multiple of 5" in part.stderr) == (1, True)
    (tmp_path / "public.jsonl").write_text(json.dumps(["walrus"]))
    refused = run(real_gateway, tenant.key, tmp_path)
    assert (refused.returncode, refused.stderr) == (1, "error: line 1 of the public rows is no JSON object\n")

"""The function of the held kind (`held_job_kind`), its specification, and a job runner that knows them.

It draws noise once, keeps it in a checkpoint, and ends when the test lets it go. It writes to the folder `bench` on
this machine, so that a test sees what a process elsewhere does.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from core.amounts import cost_nano
from core.files.encrypted_file import encrypt
from core.job_errors import BadCorpus
from core.mechanisms.samplers.discrete_noise import two_sided_geometric
from core.text.own_recognisers.stored import read_definition
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.job_runners.kinds import JOB_SPECS
from gpu_workers.jobs import messages
from gpu_workers.jobs.checkpoint import EncryptedCheckpoint
from gpu_workers.jobs.corpus import corpus_lines
from gpu_workers.jobs.messages import JobOrder, ReportProgress
from gpu_workers.jobs.targets import publish
from gpu_workers.models.tensor_file import write_tensors

HELD_S_MAX = 240.0
ENTRY_POINT = "held_job:run"


@dataclass(frozen=True)
class HeldSpec:
    """`more_bytes`: of a second checkpoint. `writes`: whether it goes on to write while it is held."""

    bench: str
    name: str
    targets: tuple[str, ...]
    more_bytes: int = 0
    writes: bool = False
    device: str = "the gateway's"


def add_kind() -> None:
    """Let runners and gateways of this process know the kind."""
    JOB_SPECS[ENTRY_POINT] = HeldSpec
    JOB_SPECS["held_job:read_own"] = InfillSpec


def remove_kind() -> None:
    del JOB_SPECS[ENTRY_POINT], JOB_SPECS["held_job:read_own"]


def read_own(order: JobOrder, report: ReportProgress, charge: messages.Charge) -> dict[str, Any]:
    """Where the first recogniser of a mask is, and what it defines."""
    file = order.spec.policy.own[0].file
    return {"path": file.path, "definition": read_definition(file).decode()}


def run(order: JobOrder, report: ReportProgress, charge: messages.Charge) -> dict[str, Any]:
    spec: HeldSpec = order.spec
    bench = Path(spec.bench)
    kept = EncryptedCheckpoint(order, "release")
    report("reading", 0.1)
    state = kept.read()
    if state is None:
        rows = [_answer(line, number) for number, line in corpus_lines(order.received())]
        report("charging", 0.2)
        charge()
        noise = int(two_sided_geometric(1, epsilon_nano=cost_nano(1.0), sensitivity=1)[0])
        _note(bench, f"{spec.name} drew {noise}")
        kept.write(orjson.dumps({"rows": len(rows), "count": len(rows) + noise}))
        (order.folder / messages.INPUT).unlink()
        state = kept.read()
        assert state is not None
    found = orjson.loads(state)
    if spec.more_bytes:
        encrypt(order.folder / "more", order.key, "more", os.urandom(spec.more_bytes))
    (bench / f"{spec.name}.folder").write_text(str(order.folder))
    (bench / f"{spec.name}.pid").write_text(str(os.getpid()))
    report("held", 0.5, {"step": float(found["count"])})
    deadline = time.monotonic() + HELD_S_MAX
    while not (bench / f"{spec.name}.go").exists():
        if time.monotonic() > deadline:
            raise TimeoutError
        if spec.writes:
            encrypt(order.folder / "tick", order.key, "tick", b"")
        time.sleep(0.1)

    def save(path: Path) -> None:
        write_tensors(path, kind="held/1", facts=found, arrays={"count": np.array([found["count"]])})

    publish(save, "# Held\n", spec.targets)
    return {**found, "device": spec.device, "kept": (order.folder / "more").exists()}


def _answer(line: bytes, number: int) -> str:
    answer = orjson.loads(line)["answer"]
    if answer == "bad":
        raise BadCorpus("An answer is bad.", reason="wrong-row", line=number)
    return str(answer)


def _note(bench: Path, line: str) -> None:
    with (bench / "journal").open("a") as journal:
        journal.write(line + "\n")

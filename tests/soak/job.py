"""The process of a soak's job: it draws noise once it is charged, works in steps, and shows which draw it has.

Each draw has a `mark`, a random number, which stands for everything that depends on the noise: it is a metric while the
job works, and it is in its result. The file `draws` gets a line for each draw, whether anything of it is shown or not.
"""

import os
import secrets
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from core.errors import JobFailed
from core.files.disk import file_digest
from core.mechanisms.samplers.discrete_noise import two_sided_geometric
from gpu_workers.jobs import protocol
from gpu_workers.jobs.corpus import corpus_lines
from gpu_workers.jobs.protocol import EncryptedCheckpoint, JobOrder, ReportProgress, publish
from gpu_workers.models.tensor_file import write_tensors

STEP_S = 0.25
WELL, BEFORE, AFTER = "well", "before", "after"  # its charge
MARK = "public_rows"  # the metric


@dataclass(frozen=True)
class SoakSpec:
    """What the job's process takes. `ends`: with a success, or with a failure before or after its charge."""

    epsilon_nano: int
    steps: int
    ends: str
    draws: str
    targets: tuple[str, ...]


def run(order: JobOrder, report: ReportProgress, charge: protocol.Charge) -> dict[str, Any]:
    """Replacing one row moves the count by at most 1. Every attempt after the draw was stored has the same noise."""
    spec: SoakSpec = order.spec
    report("counting", 0.0)
    rows = sum(1 for _ in corpus_lines(order.received()))
    if spec.ends == BEFORE:
        time.sleep(spec.steps * STEP_S)
        raise JobFailed(reason="soak-before")
    release = EncryptedCheckpoint(order, "release")
    drawn = release.read()
    if drawn is None:
        report("charging", 0.1)
        charge()  # no noise is drawn before this returns
        drawn = orjson.dumps(_draw(rows, spec, order.folder.name))
        release.write(drawn)
    count, mark = orjson.loads(drawn)
    position = EncryptedCheckpoint(order, "position")
    for step in range(int(position.read() or b"0"), spec.steps):
        time.sleep(STEP_S)
        position.write(b"%d" % (step + 1))
        report("working", 0.1 + 0.9 * step / spec.steps, {MARK: mark, "step": step + 1})
    if spec.ends == AFTER:
        raise JobFailed(reason="soak-after")
    arrays = {"count": np.array([count, mark])}
    publish(partial(write_tensors, kind="soak/1", facts={}, arrays=arrays), "# A count\n", spec.targets)
    return {"rows": rows, "count": count, "mark": mark, "sha256": file_digest(Path(spec.targets[0]))}


def _draw(rows: int, spec: SoakSpec, job_id: str) -> tuple[int, int]:
    began_ms = time.time_ns() // 1_000_000
    count = rows + int(two_sided_geometric(1, epsilon_nano=spec.epsilon_nano, sensitivity=1)[0])
    mark = secrets.randbits(50)
    line = f"{job_id} {mark} {began_ms}\n".encode()
    witness = os.open(spec.draws, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(witness, line)  # one call: lines of several processes do not mix
    os.close(witness)
    return count, mark

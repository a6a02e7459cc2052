"""A toy job that is sharded: it counts the answers "yes" of each part under differential privacy, a charge a part."""

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import orjson
from pydantic import Field

from core.amounts import cost_nano
from core.errors import JobFailed
from core.ledger.records import Charge
from core.mechanisms.samplers.discrete_noise import two_sided_geometric
from gpu_workers.jobs import protocol
from gpu_workers.jobs.corpus import corpus_lines
from gpu_workers.jobs.protocol import (
    EncryptedCheckpoint,
    HoldRequested,
    JobOrder,
    ReportProgress,
    Sharded,
    kept_part,
    publish,
)
from gpu_workers.models.tensor_file import write_tensors
from service.config.settings import Settings
from service.jobs.kind import JobPrice, Outputs
from toys.toy_job_kind import ToyFields, ToyKind, charge_of


class ToyShardedFields(ToyFields):
    parts: int = Field(ge=1, le=200)
    delay_s: float = Field(0.0, ge=0, le=60, description="Of each part.")


class ToyShardedRequest(ToyShardedFields):
    """Body of `POST /jobs/sharded` as JSON."""

    answers: list[bool] = Field(min_length=1)


@dataclass(frozen=True)
class ToyShardedSpec:
    """What the job's processes take. Each draw adds its part and a random number to the file `draws`."""

    question: str
    epsilon_nano: int
    parts: int
    delay_s: float
    draws: str
    targets: tuple[str, ...]


class ToyShardedKind(ToyKind):
    """Guarantee: pure epsilon-DP for replacing one answer, since each is in one part."""

    name = "sharded"
    fields = ToyShardedFields
    body = ToyShardedRequest
    entry_point = "toys.toy_sharded_kind:JOB"
    estimate = None
    marks = frozenset()

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._draws = settings.data_dir.parent / "draws"

    async def price(self, owner: str, fields: Mapping[str, Any]) -> JobPrice | None:
        return None

    def part_charges(self, fields: Mapping[str, Any], part: HoldRequested) -> Sequence[Charge]:
        return [charge_of(fields)]

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> ToyShardedSpec:
        targets = (str(outputs.artifact),)
        epsilon_nano = cost_nano(fields["epsilon"])
        return ToyShardedSpec(
            fields["question"], epsilon_nano, fields["parts"], fields["delay_s"], str(self._draws), targets
        )


def prepare(order: JobOrder, report: ReportProgress, charge: protocol.Charge) -> list[int]:
    """The number of answers "yes" of each part, which the processes of the job alone see."""
    spec: ToyShardedSpec = order.spec

    def scan() -> list[int]:
        report("scanning", 0.0)
        answers = [orjson.loads(line)["answer"] for _, line in corpus_lines(order.received())]
        found = [answers[part :: spec.parts] for part in range(spec.parts)]
        for part, rows in enumerate(found):
            if not charge.hold(part, len(rows)):
                raise JobFailed(reason=protocol.BUDGET)
        return [sum(rows) for rows in found]

    return kept_part(EncryptedCheckpoint(order, "plan"), scan, packed=orjson.dumps, unpacked=orjson.loads)


def missing(order: JobOrder, plan: list[int]) -> list[int]:
    return [part for part in range(len(plan)) if not (order.folder / f"part-{part}").exists()]


def draw(
    order: JobOrder, plan: list[int], parts: Sequence[int], report: ReportProgress, charge: protocol.Charge
) -> None:
    spec: ToyShardedSpec = order.spec
    for part in parts:
        charge(part)
        mark = secrets.randbits(50)
        witness = os.open(spec.draws, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(witness, f"{part} {mark}\n".encode())
        os.close(witness)
        time.sleep(spec.delay_s)
        noise = int(two_sided_geometric(1, epsilon_nano=spec.epsilon_nano, sensitivity=1)[0])
        packed = orjson.dumps({"count": plan[part] + noise, "mark": mark, "question": spec.question})
        EncryptedCheckpoint(order, f"part-{part}").write(packed)
        report("drawing", part / len(plan))


def finish(order: JobOrder, plan: list[int]) -> dict[str, Any]:
    spec: ToyShardedSpec = order.spec
    drawn = [orjson.loads(EncryptedCheckpoint(order, f"part-{part}").read() or b"") for part in range(len(plan))]
    counts = np.array([each["count"] for each in drawn], dtype=np.int64)
    save = partial(write_tensors, kind="toy/2", facts={}, arrays={"counts": counts})
    publish(save, f"# Answers to `{spec.question}`\n", spec.targets)
    return {"parts": len(plan), "marks": [each["mark"] for each in drawn]}


JOB = Sharded(prepare, missing, draw, finish)

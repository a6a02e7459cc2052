"""A toy job kind: it counts the answers "yes" under differential privacy.

In the project itself this would be two files, since `gpu_workers` does not import `service`: the class and the
capability belong in `service/NAME/job_kind.py`, the specification and `run` in `gpu_workers/NAME/job.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import orjson
from pydantic import Field

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import cost_nano
from core.errors import BadCorpus
from core.ledger.records import Charge
from core.mechanisms.samplers.discrete_noise import two_sided_geometric
from gpu_workers.jobs import protocol
from gpu_workers.jobs.corpus import corpus_lines
from gpu_workers.jobs.protocol import JobOrder, ReportProgress, publish
from gpu_workers.models.tensor_file import write_tensors
from service.capability import Capability
from service.config.data_dir import NAME
from service.config.settings import Settings
from service.http.strict import Strict
from service.jobs.kind import JobKind, JobPrice, Outputs
from service.releases.request import check_epsilon


class ToyFields(Strict):
    name: str = Field(pattern=rf"^{NAME}$")
    question: str = Field(max_length=200, description="What was answered. It is public.")
    epsilon: float = Field(gt=0)
    subject: str | None = Field(None, min_length=1, max_length=256)


class ToyRequest(ToyFields):
    """Body of `POST /jobs/toy` as JSON."""

    answers: list[bool] = Field(min_length=1)


class ToyEstimate(ToyFields):
    """The same body for its price. The answers are not read."""

    answers: list[Any] | None = None


@dataclass(frozen=True)
class ToySpec:
    """What the job's process takes."""

    question: str
    epsilon_nano: int
    targets: tuple[str, ...]


def charge_of(fields: Mapping[str, Any]) -> Charge:
    event = PrivacyEvent(
        mechanism="toy_count", kind="pure", unit=Unit.RECORD, adjacency=Adjacency.REPLACE_ONE,
        guarantee=Guarantee.PURE_DP, epsilon_nano=cost_nano(fields["epsilon"]),
    )  # fmt: skip
    return Charge(event, fields["subject"])


class ToyKind(JobKind):
    """Guarantee: pure epsilon-DP for replacing one answer. The number of answers is public."""

    name = "toy"
    summary = "Count the answers `yes`"
    description = "As `POST /jobs/domain`, with a tenant's key alone."
    fields = ToyFields
    body = ToyRequest
    rows_description = 'Rows {"answer"}.'
    entry_point = "toys.toy_job_kind:run"
    estimate = ToyEstimate
    marks = frozenset({"question"})

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def rows(self, body: ToyRequest) -> Iterable[dict[str, Any]]:
        return ({"answer": answer} for answer in body.answers)

    def resolve(self, owner: str, fields: ToyFields) -> ToyFields:
        check_epsilon(fields.epsilon, self._settings)
        return fields

    async def price(self, owner: str, fields: Mapping[str, Any]) -> JobPrice:
        return JobPrice([charge_of(fields)], facts={"sensitivity": 1})

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> ToySpec:
        return ToySpec(fields["question"], cost_nano(fields["epsilon"]), targets=(str(outputs.artifact),))


def run(order: JobOrder, report: ReportProgress, charge: protocol.Charge) -> dict[str, Any]:
    """Replacing one answer moves the count by at most 1, which is the sensitivity of the noise. Raises BadCorpus."""
    spec: ToySpec = order.spec
    report("counting", 0.0)
    answers = [_answer(line, number) for number, line in corpus_lines(order.received())]
    report("charging", 0.5)
    charge()  # no noise is drawn before this returns
    noise = two_sided_geometric(1, epsilon_nano=spec.epsilon_nano, sensitivity=1)
    count = sum(answers) + noise
    save = partial(write_tensors, kind="toy/1", facts={"rows": len(answers)}, arrays={"count": count.astype(np.int64)})
    publish(save, f"# Answers to `{spec.question}`\n\nyes: about {count[0]} of {len(answers)}\n", spec.targets)
    return {"rows": len(answers), "count": int(count[0])}


def _answer(line: bytes, number: int) -> bool:
    try:
        answer = orjson.loads(line)["answer"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        answer = None
    if not isinstance(answer, bool):
        raise BadCorpus('A row is {"answer"}, true or false.', reason="wrong-row", line=number)
    return answer


CAPABILITY = Capability(name="toy", job_kinds=lambda parts: [ToyKind(parts[Settings])])

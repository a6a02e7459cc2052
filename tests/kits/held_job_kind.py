"""A kind of job that a test holds (`held_job`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from held_job import ENTRY_POINT, HeldSpec

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import cost_nano
from core.ledger.records import Charge
from service.http.strict import Strict
from service.jobs.kind import JobKind, JobPrice, Outputs


class HeldFields(Strict):
    bench: str
    name: str
    more_bytes: int = 0
    writes: bool = False


class HeldRequest(HeldFields):
    answers: list[str]


class HeldKind(JobKind):
    name = "held"
    summary = description = "Of tests."
    fields = HeldFields
    body = HeldRequest
    rows_description = 'Rows {"answer"}.'
    entry_point = ENTRY_POINT

    def rows(self, body: HeldRequest) -> Iterable[dict[str, Any]]:
        return ({"answer": answer} for answer in body.answers)

    async def price(self, owner: str, fields: Mapping[str, Any]) -> JobPrice:
        event = PrivacyEvent(
            mechanism="held_count",
            kind="pure",
            unit=Unit.RECORD,
            adjacency=Adjacency.REPLACE_ONE,
            guarantee=Guarantee.PURE_DP,
            epsilon_nano=cost_nano(1.0),
        )
        return JobPrice(Charge(event, None))

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> HeldSpec:
        return HeldSpec(
            fields["bench"],
            fields["name"],
            (str(outputs.artifact),),
            more_bytes=fields["more_bytes"],
            writes=fields["writes"],
        )

"""The kind of the soak's jobs: cheap, charged once, and with an end that its request chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field
from soak.job import SoakSpec

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.amounts import cost_nano
from core.ledger.records import Charge
from service.config.data_dir import NAME
from service.config.settings import Settings
from service.http.strict import Strict
from service.jobs.kind import JobKind, JobPrice, Outputs


class SoakFields(Strict):
    name: str = Field(pattern=rf"^{NAME}$")
    epsilon: float = Field(gt=0)
    steps: int = Field(ge=1, le=100)
    ends: Literal["well", "before", "after"]


class SoakRequest(SoakFields):
    """Body of `POST /jobs/soak` as JSON."""

    numbers: list[int] = Field(min_length=1)


class SoakKind(JobKind):
    """Guarantee: pure epsilon-DP for replacing one row. The number of rows is public.

    The file of draws is beside the data directory, for all gateways of a soak."""

    name = "soak"
    summary = "Count rows"
    description = "As `POST /jobs/domain`, with a tenant's key alone."
    fields = SoakFields
    body = SoakRequest
    rows_description = 'Rows {"number"}.'
    entry_point = "soak.job:run"

    def __init__(self, settings: Settings) -> None:
        self._draws = settings.data_dir.parent / "draws"

    def rows(self, body: SoakRequest) -> Iterable[dict[str, Any]]:
        return ({"number": number} for number in body.numbers)

    async def price(self, owner: str, fields: Mapping[str, Any]) -> JobPrice:
        event = PrivacyEvent(
            mechanism="soak_count",
            kind="pure",
            unit=Unit.RECORD,
            adjacency=Adjacency.REPLACE_ONE,
            guarantee=Guarantee.PURE_DP,
            epsilon_nano=cost_nano(fields["epsilon"]),
        )
        return JobPrice(Charge(event, None))

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> SoakSpec:
        return SoakSpec(
            cost_nano(fields["epsilon"]),
            fields["steps"],
            fields["ends"],
            draws=str(self._draws),
            targets=(str(outputs.artifact),),
        )

"""The kind of the soak's jobs: the toy's count, in steps, and with an end that its request chooses."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from soak.job import SoakSpec
from toys.toy_job_kind import ToyFields, ToyKind

from core.amounts import cost_nano
from service.config.settings import Settings
from service.jobs.kind import Outputs


class SoakFields(ToyFields):
    steps: int = Field(ge=1, le=100)
    ends: Literal["well", "before", "after"]


class SoakRequest(SoakFields):
    """Body of `POST /jobs/soak` as JSON."""

    answers: list[bool] = Field(min_length=1)


class SoakKind(ToyKind):
    """The file of draws is beside the data directory, for all gateways of a soak."""

    name = "soak"
    fields = SoakFields
    body = SoakRequest
    entry_point = "soak.job:run"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._draws = settings.data_dir.parent / "draws"

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> SoakSpec:
        epsilon_nano = cost_nano(fields["epsilon"])
        targets = (str(outputs.artifact),)
        return SoakSpec(epsilon_nano, fields["steps"], fields["ends"], draws=str(self._draws), targets=targets)

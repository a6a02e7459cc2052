"""The job that makes synthetic rows of a private table, and the bodies of `POST /jobs/synthesis`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from core.amounts import delta_of
from core.errors import InvalidInput
from core.ledger.records import Charge
from gpu_workers.synthesis.spec import SynthesisSpec
from service.config.data_dir import NAME
from service.config.settings import ROWS_TAKEN, Settings
from service.http.strict import AtMost, Strict
from service.jobs.kind import JobKind, JobPrice, Outputs
from service.releases.request import check_epsilon

if TYPE_CHECKING:
    from core.synthesis.schema import DeclaredTable


class SynthesisFields(Strict):
    """Everything but the rows. `schema` is public: it must not be derived from the rows."""

    name: str = Field(pattern=rf"^{NAME}$")
    table: dict[str, Any] = Field(
        alias="schema",
        description='{"columns": [...], "label": ...}, or {"embedding": {"dimension", "minimum", "maximum"}, "label"}.',
    )
    method: Literal["pearl", "marginals", "aim"] = Field(description="No default: the caller chooses.")
    epsilon: float = Field(gt=0, description="Cost of the one release, for replacing one record.")
    delta: float = Field(gt=0, lt=1)
    row_count: Literal["public", "protected"] = Field(description="Whether the number of rows may be known.")
    outside: Literal["refuse", "clip"] = Field("refuse", description="What becomes of a number outside its bounds.")
    subject: str | None = Field(None, min_length=1, max_length=256)
    design: Literal["low_order", "gaussian"] | None = Field(
        None, description="Where the frequencies lie, of `pearl` alone: `low_order` (default), or the paper's."
    )
    frequencies: int | None = Field(None, ge=1, description="Of `pearl` alone. Default: 5000, with `gaussian` 1000.")
    steps: int | None = Field(None, ge=1, description="Of the training at most, of `pearl` alone. Default: 1000.")
    bins: int | None = Field(None, ge=1, description="Of a numeric column, of `marginals` alone. Default: 16.")


class SynthesisRequest(SynthesisFields):
    """Body of `POST /jobs/synthesis` as JSON."""

    rows: Annotated[list[dict[str, Any]], AtMost(ROWS_TAKEN)]


class SynthesisEstimate(SynthesisFields):
    """The same body for its price; rows are not read."""

    rows: Annotated[list[dict[str, Any]], AtMost(ROWS_TAKEN)] | None = None


STEPS_DEFAULT = 1_000
_STEPS_MAX = 20_000  # twenty times the default; a training that is near to the release ends earlier


class SynthesisKind(JobKind):
    """Guarantee: (epsilon, delta)-DP for replacing one record, once a job, on the tenant's record account."""

    name = "synthesis"
    summary = "Make synthetic rows of a private table, and a file that makes more of them"
    description = (
        "As `POST /jobs/domain`, with a tenant's key alone. Holds its cost now and spends it when it draws its noise."
    )
    fields = SynthesisFields
    body = SynthesisRequest
    rows_description = 'Rows by the names of their columns, or {"embedding": [...]} and the label; the schema as JSON.'
    entry_point = "gpu_workers.synthesis.job:run"
    estimate = SynthesisEstimate
    marks = frozenset({"schema"})

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def rows(self, body: SynthesisRequest) -> Iterable[dict[str, Any]]:
        return body.rows

    def resolve(self, owner: str, fields: SynthesisFields) -> SynthesisFields:  # noqa: ARG002
        """The fields, once they and the rows of a JSON body can be used.

        Raises InvalidInput; OutOfRange with the smallest epsilon that is enough.
        """
        declared = self._declared(fields)
        if isinstance(fields, SynthesisRequest):
            from core.synthesis.columns import Outside
            from core.synthesis.encoding import encode_rows

            if len(fields.rows) > self._settings.synthesis_rows_max:
                raise InvalidInput(f"at most {self._settings.synthesis_rows_max} rows", field="rows")
            encode_rows(declared, fields.rows, outside=Outside(fields.outside))
        return fields

    async def price(self, owner: str, fields: Mapping[str, Any]) -> JobPrice:  # noqa: ARG002
        """One Gaussian event, from (epsilon, delta) alone. The job draws the very noise that is charged."""
        from core.synthesis.plan import advice
        from core.synthesis.pricing import record_budget
        from core.synthesis.schema import declared_table

        budget = await asyncio.to_thread(record_budget, fields["epsilon"], fields["delta"])
        return JobPrice(
            [Charge(budget.event(fields["method"]), fields["subject"])],
            fields={"budget": asdict(budget)},
            facts={
                "delta": delta_of(budget.delta_femto),
                "noise_multiplier": budget.noise_multiplier,
                "advice": advice(declared_table(fields["table"])),
            },
        )

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> SynthesisSpec:
        # imported late: scipy, which a front end without such jobs does without
        from core.synthesis.pearl_release import Design
        from core.synthesis.plan import BINS_DEFAULT, DESIGN_DEFAULT, FREQUENCIES_DEFAULT
        from core.synthesis.pricing import RecordBudget

        design = Design(fields["design"] or DESIGN_DEFAULT)
        return SynthesisSpec(
            name=fields["name"],
            targets=(str(outputs.artifact),),
            report=str(outputs.report),
            declared=fields["table"],
            method=fields["method"],
            budget=RecordBudget(**fields["budget"]),
            rows_are_public=fields["row_count"] == "public",
            outside=fields["outside"],
            design=design,
            frequencies=fields["frequencies"] or FREQUENCIES_DEFAULT[design],
            bins=fields["bins"] or BINS_DEFAULT,
            steps=fields["steps"] or STEPS_DEFAULT,
            rows_max=self._settings.synthesis_rows_max,
            device=self._settings.devices[0],
            threads=self._settings.job_threads,
        )

    def _declared(self, fields: SynthesisFields) -> DeclaredTable:
        """What is declared, checked with the parameters and the budget; no row is looked at."""
        # imported late: as above
        from core.synthesis.pearl_release import Design
        from core.synthesis.plan import BINS_DEFAULT, DESIGN_DEFAULT, FREQUENCIES_DEFAULT, METHODS, SynthesisPlan
        from core.synthesis.pricing import record_budget
        from core.synthesis.schema import declared_table

        settings = self._settings
        declared = declared_table(fields.table)
        for method, row in METHODS.items():
            for other in row.members:
                if method != fields.method and getattr(fields, other) is not None:
                    raise InvalidInput(f"{fields.method} has no {other}", field=other)
        if fields.steps is not None and fields.steps > _STEPS_MAX:
            raise InvalidInput(f"at most {_STEPS_MAX} steps", field="steps")
        check_epsilon(fields.epsilon, settings)
        design = Design(fields.design or DESIGN_DEFAULT)
        SynthesisPlan(
            fields.method,
            rows_are_public=fields.row_count == "public",
            frequencies=fields.frequencies or FREQUENCIES_DEFAULT[design],
            bins=fields.bins or BINS_DEFAULT,
            design=design,
            rows_per_subject=declared.rows_per_subject,
        ).check(declared.schema, record_budget(fields.epsilon, fields.delta))
        return declared

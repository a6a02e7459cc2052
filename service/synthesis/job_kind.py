"""What a request for synthetic rows may say, what it costs, and what is refused before anything is held."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from core.errors import InvalidInput
from core.ledger.records import Charge
from service.domains.store import NAME
from service.house import House
from service.http.strict import Strict
from service.jobs.intakes import Intake, Price

if TYPE_CHECKING:
    from core.synthesis.declared import DeclaredTable
    from core.synthesis.pricing import RecordBudget


class SynthesisFields(Strict):
    """Everything but the rows. `schema` is public: nothing of it may be read off the rows."""

    name: str = Field(pattern=rf"^{NAME}$")
    table: dict[str, Any] = Field(
        alias="schema",
        description='{"columns": [...], "label": ...}, or {"embedding": {"dimension", "minimum", "maximum"}, "label"}.',
    )
    method: Literal["pearl", "marginals"] = Field(description="No default: the caller chooses.")
    epsilon: float = Field(gt=0, description="Cost of the one release, for replacing one record.")
    delta: float = Field(gt=0, lt=1)
    row_count: Literal["public", "protected"] = Field(description="Whether the number of rows may be known.")
    outside: Literal["refuse", "clip"] = Field("refuse", description="What becomes of a number outside its bounds.")
    subject: str | None = Field(None, min_length=1, max_length=256)
    design: Literal["low_order", "gaussian"] | None = Field(
        None, description="Where the frequencies lie, of `pearl` alone: `low_order` (default), or the paper's."
    )
    frequencies: int | None = Field(None, ge=1, description="Of `pearl` alone. Default: 5000.")
    steps: int | None = Field(None, ge=1, description="Of the training at most, of `pearl` alone. Default: 1000.")
    bins: int | None = Field(None, ge=1, description="Of a numeric column, of `marginals` alone. Default: 16.")


class SynthesisRequest(SynthesisFields):
    """Body of `POST /jobs/synthesis` as JSON."""

    rows: list[dict[str, Any]]


class SynthesisEstimate(SynthesisFields):
    """The same body for its price; rows are not read."""

    rows: list[dict[str, Any]] | None = None


def checked_price(here: House, fields: SynthesisFields) -> tuple[DeclaredTable, RecordBudget]:
    """What is declared, and the budget of the one release, by schema and parameters alone.

    Raises InvalidInput, OutOfRange with the smallest epsilon that is enough.
    """
    # late: with scipy, which a front end without such jobs does without
    from core.synthesis.declared import declared_table
    from core.synthesis.pearl_release import Design
    from core.synthesis.plan import BINS_DEFAULT, DESIGN_DEFAULT, FREQUENCIES_DEFAULT, SynthesisPlan
    from core.synthesis.pricing import record_budget

    settings = here.settings
    declared = declared_table(fields.table)
    if len(declared.schema.columns) > settings.synthesis_columns_max:
        raise InvalidInput(f"at most {settings.synthesis_columns_max} columns", field="schema")
    others = ("bins",) if fields.method == "pearl" else ("design", "frequencies", "steps")
    for other in others:
        if getattr(fields, other) is not None:
            raise InvalidInput(f"{fields.method} has no {other}", field=other)
    if fields.steps is not None and fields.steps > settings.synthesis_steps_max:
        raise InvalidInput(f"at most {settings.synthesis_steps_max} steps", field="steps")
    if not settings.epsilon_min <= fields.epsilon <= settings.epsilon_max:
        raise InvalidInput(
            f"epsilon must be between {settings.epsilon_min:g} and {settings.epsilon_max:g}", field="epsilon"
        )
    budget = record_budget(fields.epsilon, fields.delta)
    SynthesisPlan(
        fields.method,
        rows_are_public=fields.row_count == "public",
        frequencies=fields.frequencies or FREQUENCIES_DEFAULT,
        bins=fields.bins or BINS_DEFAULT,
        design=Design(fields.design or DESIGN_DEFAULT),
    ).check(declared.schema, budget)
    return declared, budget


def _settled(here: House, _: str, fields: SynthesisFields) -> SynthesisFields:
    """The fields, once they and the rows of a JSON body can be used. Raises InvalidInput."""
    declared, _budget = checked_price(here, fields)
    if isinstance(fields, SynthesisRequest):
        from core.synthesis.encoding import Outside, encode_rows

        if len(fields.rows) > here.settings.synthesis_rows_max:
            raise InvalidInput(f"at most {here.settings.synthesis_rows_max} rows", field="rows")
        rows = [declared.row(row, number=number) for number, row in enumerate(fields.rows)]
        encode_rows(declared.schema, rows, outside=Outside(fields.outside))
    return fields


async def _price(_: House, fields: Mapping[str, Any]) -> Price:
    """One Gaussian event, from (epsilon, delta) alone. The job draws the very noise that is charged."""
    from core.synthesis.pricing import record_budget

    budget = await asyncio.to_thread(record_budget, fields["epsilon"], fields["delta"])
    return Price(Charge(budget.event(fields["method"]), fields["subject"]), {"budget": asdict(budget)})


SYNTHESIS = Intake(
    "synthesis",
    SynthesisFields,
    SynthesisRequest,
    rows=lambda body: body.rows,
    rows_described='Rows by the names of their columns, or {"embedding": [...]} and the label; the schema as JSON.',
    settled=_settled,
    price=_price,
)

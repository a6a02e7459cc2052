"""Bodies of `POST /jobs/synthesis`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from service.config.data_dir import NAME
from service.config.settings import ROWS_TAKEN
from service.http.strict import AtMost, Strict


class SynthesisFields(Strict):
    """Everything but the rows. `schema` is public: it must not be derived from the rows."""

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

    rows: Annotated[list[dict[str, Any]], AtMost(ROWS_TAKEN)]


class SynthesisEstimate(SynthesisFields):
    """The same body for its price; rows are not read."""

    rows: Annotated[list[dict[str, Any]], AtMost(ROWS_TAKEN)] | None = None

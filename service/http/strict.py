"""The base of every model that reads what a caller or an operator wrote."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """`"0.5"` is not a number, a misspelt field is an error, NaN is refused."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

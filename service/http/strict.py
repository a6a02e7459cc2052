"""The base class of models for input from callers and operators."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """`"0.5"` is not a number, a misspelt field is an error, NaN is refused."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


def exactly_one_of(*fields: str) -> Any:
    """A validator for a model's body, such as `_one_form = exactly_one_of("text", "sentences")`."""

    def check(model: Model) -> Model:
        if sum(getattr(model, field) is not None for field in fields) != 1:
            raise ValueError(f"give exactly one of {', '.join(fields)}")
        return model

    return model_validator(mode="after")(check)

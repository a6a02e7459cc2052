"""The base class of models for input from callers and operators, and the bound that every list of theirs has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from annotated_types import BaseMetadata, GroupedMetadata, MaxLen
from pydantic import BaseModel, ConfigDict, FailFast, model_validator
from pydantic_core import PydanticCustomError

from service.config.settings import DIMENSIONS_TAKEN

Model = TypeVar("Model", bound=BaseModel)

# An object with more unknown members gets one error, not one for each.
_UNKNOWN_MEMBERS_MAX = 16


@dataclass(frozen=True)
class AtMost(GroupedMetadata):
    """For `Annotated`: a list or dict of at most `length` items, whose validation ends at the first error.

    Every list of a body has it. Without it, pydantic collects an error for each of a million wrong items.
    """

    length: int

    def __iter__(self) -> Iterator[BaseMetadata]:
        yield FailFast()
        yield MaxLen(self.length)


Vector = Annotated[list[float], AtMost(DIMENSIONS_TAKEN)]


class Strict(BaseModel):
    """`"0.5"` is not a number, a misspelt field is an error, NaN is refused. The number of errors is bounded."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, data: Any) -> Any:
        if isinstance(data, dict) and len(data) > len(cls.model_fields) + _UNKNOWN_MEMBERS_MAX:
            raise PydanticCustomError("too_many_members", "the object has too many members")
        return data


def exactly_one_of(*fields: str) -> Any:
    """A validator for a model's body, such as `_one_form = exactly_one_of("text", "sentences")`."""

    def check(model: Model) -> Model:
        if sum(getattr(model, field) is not None for field in fields) != 1:
            raise ValueError(f"give exactly one of {', '.join(fields)}")
        return model

    return model_validator(mode="after")(check)

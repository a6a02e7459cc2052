"""Input from callers and operators: the base class of its models, the bound that every list of theirs has, numbers and
pages of queries, the `Idempotency-Key`, and the errors of models that a route validates itself.
"""

import ipaddress
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

from annotated_types import BaseMetadata, GroupedMetadata, MaxLen
from fastapi import Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from core.errors import InvalidInput
from service.config.settings import DIMENSIONS_TAKEN, Settings
from service.parts import Part

Model = TypeVar("Model", bound=BaseModel)

# An object with more unknown members gets one error, not one for each.
_UNKNOWN_MEMBERS_MAX = 16
_UNKNOWN_MEMBERS_NAMED = 4


@dataclass(frozen=True)
class AtMost(GroupedMetadata):
    """For `Annotated`: a list or dict of at most `length` items, whose validation ends at the first error.

    Every list of a body has it. Without it, pydantic collects an error for each of a million wrong items.
    """

    length: int

    def __iter__(self) -> Iterator[BaseMetadata]:
        yield FailFast()
        yield MaxLen(self.length)


@cache
def _members(model: type[BaseModel]) -> dict[str, None]:
    """The names of a model's members, in their order."""
    return dict.fromkeys(field.alias or name for name, field in model.model_fields.items())


Vector = Annotated[list[float], AtMost(DIMENSIONS_TAKEN)]


class Strict(BaseModel):
    """`"0.5"` is not a number, a misspelt field is an error, NaN is refused. The number of errors is bounded.

    An object with unknown members has an error for each of the first few, with the members that there are, and no other
    error: a missing member is often a misspelt one.
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if len(data) > len(cls.model_fields) + _UNKNOWN_MEMBERS_MAX:
            raise PydanticCustomError("too_many_members", "the object has too many members")
        if cls.model_config["extra"] == "forbid" and not data.keys() <= (members := _members(cls)).keys():
            wrong = PydanticCustomError("extra_forbidden", "unknown member", {"permitted": list(members)})
            unknown = [name for name in data if name not in members][:_UNKNOWN_MEMBERS_NAMED]
            lines = [InitErrorDetails(type=wrong, loc=(name,), input=None) for name in unknown]
            raise ValidationError.from_exception_data(cls.__name__, lines)
        return data


def exactly_one_of(*fields: str) -> Any:
    """A validator for a model's body, such as `_one_form = exactly_one_of("text", "sentences")`."""

    def check(model: Model) -> Model:
        if sum(getattr(model, field) is not None for field in fields) != 1:
            said = f"give exactly one of {', '.join(fields)}"
            raise PydanticCustomError("value_error", said, {"permitted": list(fields)})
        return model

    return model_validator(mode="after")(check)


def findings(error: ValidationError, *place: str) -> list[dict[str, Any]]:
    """What is wrong and where, with locations below `place`, in the form of pydantic."""
    found = error.errors(include_url=False)
    return [{**entry, "loc": (*place, *entry["loc"])} for entry in found]


def invalid_request(error: ValidationError, *place: str) -> RequestValidationError:
    """The error to raise for a model at `place` of the request."""
    return RequestValidationError(findings(error, *place))


def names(found: Sequence[dict[str, Any]]) -> str:
    """The findings in one line, for messages to the operator about configuration files."""
    return "; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in found)


_DIGITS_MAX = 18  # fits into 64 bits; `int` refuses texts of thousands of digits


def whole_number(text: str | None) -> int | None:
    """The number that `text` writes in up to 18 ASCII digits, else None.

    `str.isdigit` also accepts characters such as a superscript two, for which `int` raises an error.
    """
    if not text or len(text) > _DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


_IPV6_NETWORK_BITS = 64  # a client can use every address of its network


def client_network(address: str) -> str:
    """The address of a client, or of an IPv6 address its network. Anything else is one entry."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if found.version == 4:
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found.packed, _IPV6_NETWORK_BITS), strict=False))


def _digits(value: str) -> str:
    if not (value.isascii() and value.isdigit()):
        raise PydanticCustomError("int_parsing", "digits alone")
    return value


# A number of a query, exact in JSON and in Redis.
Digits = Annotated[int, BeforeValidator(_digits), Field(lt=2**53)]


_KEY = re.compile(r"^[\x21-\x7e]{1,255}$")


def is_generated(request: Request) -> bool:
    """Whether `idempotency_key` generates the key of this request."""
    return "idempotency-key" not in request.headers


def idempotency_key(request: Request) -> str:
    """The request's key, else a fresh one. Either one is returned in a header and finds the same answer again.

    Raises:
        InvalidInput: the header is not 1 to 255 visible ASCII characters.
    """
    offered = request.headers.get("idempotency-key")
    if offered is None:
        return uuid.uuid4().hex
    if not _KEY.match(offered):
        raise InvalidInput("Idempotency-Key must be 1 to 255 visible ASCII characters")
    return offered


RETRY_COUNT = "x-stainless-retry-count"


def attempt_number(request: Request) -> int | None:
    """Which attempt of the same call this is, from 0, as the SDKs of OpenAI and Anthropic count. None for a request
    that does not state it, and for one with an idempotency key, which takes precedence."""
    return whole_number(request.headers.get(RETRY_COUNT)) if is_generated(request) else None


@dataclass(frozen=True)
class Paging:
    """`cursor`: `next_cursor` of the page before, None for the first page."""

    cursor: str | None
    limit: int


async def paging(
    settings: Part[Settings],
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before")] = None,
    limit: Annotated[int | None, Query(ge=1)] = None,
) -> Paging:
    """The query of a page. A longer page than the settings allow is cut to what they allow."""
    largest = settings.budget_page_max
    return Paging(cursor, largest if limit is None else min(limit, largest))


PagingDep = Annotated[Paging, Depends(paging)]

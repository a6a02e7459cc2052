"""Command-line options made from the fields of a request, so that a new field is an option without further code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel

Command = TypeVar("Command", bound=Callable[..., Any])


def with_fields(fields: type[BaseModel], *, leave_out: tuple[str, ...]) -> Callable[[Command], Command]:
    """Give a command that takes `**fields` an option for each field of the model, `--like-this` for `like_this`.

    Options that are not given are None: the gateway's own defaults apply.
    """

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(command).parameters.items()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        made = [_parameter(fields, name) for name in fields.model_fields if name not in leave_out]
        parameters = [*own, *made]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields whose options were given."""
    return {name: value for name, value in fields.items() if value is not None}


def differing(model: type[BaseModel], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ from the model's defaults: equal for a default that is given and one that is left out."""
    return {name: value for name, value in fields.items() if value != model.model_fields[name].default}


def _parameter(fields: type[BaseModel], name: str) -> inspect.Parameter:
    field = fields.model_fields[name]
    shown = (field.description or "").rstrip(".")
    if not field.is_required() and field.default not in (None, False):
        shown += f"  [default: {field.default}]"
    kind: Any = _plain(field.annotation)
    default: Any = inspect.Parameter.empty
    if not field.is_required():
        kind, default = kind | None, None
    declared = typer.Option(f"--{name.replace('_', '-')}", help=shown)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, declared]
    )


def _plain(annotation: Any) -> Any:
    """A field's type without the constraints of its elements: the gateway checks them."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) is list:
        return list[_plain(get_args(annotation)[0])]  # type: ignore[misc]
    return annotation

"""Calls endpoints of the usual form without the framework's resolution of their parameters.

The framework walks the tree of dependencies for each request, which takes longer than what a short request needs of
them. An endpoint of the usual form takes a body of one model, the request, and dependencies that take the request
alone, and returns the response. Every other endpoint is left to the framework.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from service.http.auth import Needs

Handler = Callable[[Request], Awaitable[Response]]


def direct_call(route: APIRoute, handler: Handler) -> Handler:
    """What answers a request of `route` whose caller is known: `handler`, the framework's, or what does the same.

    Dependencies are called in their order, then the body is validated, as the framework does. Raises as the endpoint,
    and RequestValidationError.
    """
    dependant, field = route.dependant, route.body_field
    parts = [_part(each) for each in dependant.dependencies]
    if field is None or len(dependant.body_params) != 1 or field is not dependant.body_params[0]:
        return handler
    if _takes_more(dependant) or None in parts or not _returns_response(dependant.call):
        return handler
    endpoint: Callable[..., Awaitable[Response]] = dependant.call  # type: ignore[assignment]
    named = [part for part in parts if part is not None]

    async def call(request: Request) -> Response:
        if not await request.body():
            return await handler(request)
        values: dict[str, Any] = {}
        try:
            body = await request.json()
        except orjson.JSONDecodeError:
            raise RequestValidationError([{"type": "json_invalid", "loc": ("body",)}]) from None
        if body is None:
            return await handler(request)
        for name, part in named:
            value = await part(request)
            if name is not None:
                values[name] = value
        value, errors = field.validate(body, {}, loc=("body",))
        if errors:
            raise RequestValidationError(errors)
        values[field.name] = value
        if dependant.request_param_name is not None:
            values[dependant.request_param_name] = request
        return await endpoint(**values)

    return call


def _part(dependant: Dependant) -> tuple[str | None, Callable[[Request], Awaitable[Any]]] | None:
    """A dependency that takes the request alone, with the name of the parameter that gets its value."""
    call = dependant.call
    takes_request = dependant.request_param_name is not None and not dependant.body_params
    # what `Needs` depends on is for the documentation of the API
    if not takes_request or _takes_more(dependant) or (dependant.dependencies and not isinstance(call, Needs)):
        return None
    if not inspect.iscoroutinefunction(call) and not isinstance(call, Needs):
        return None
    return dependant.name, call


def _takes_more(dependant: Dependant) -> bool:
    """Whether a function takes something else than a body, the request and dependencies."""
    return bool(
        dependant.path_params
        or dependant.query_params
        or dependant.header_params
        or dependant.cookie_params
        or dependant.http_connection_param_name
        or dependant.websocket_param_name
        or dependant.response_param_name
        or dependant.background_tasks_param_name
        or dependant.security_scopes_param_name
        or dependant.concurrency
    )


def _returns_response(call: Callable[..., Any] | None) -> bool:
    if not inspect.iscoroutinefunction(call):
        return False
    returned = inspect.signature(call, eval_str=True).return_annotation
    return inspect.isclass(returned) and issubclass(returned, Response)

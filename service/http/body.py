"""JSON bodies: one route class for every endpoint that takes one.

`orjson` refuses NaN, Infinity and trailing text. The nesting is bounded before parsing. Any other media type gets 415.
The models derive from `service/http/strict.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from core.ledger.names import SHARED_OWNER
from service.http.auth import Caller, identify, needs_of
from service.http.body_memory import BodyMemory, CountedBody

# A string, terminated or not. A pattern without the second case would backtrack at every quote inside the string.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def nesting(raw: bytes) -> int:
    """The deepest nesting of arrays and objects in a JSON text."""
    brackets = np.frombuffer(_STRING.sub(b"", raw).translate(None, _NOT_BRACKETS), dtype=np.uint8)
    if brackets.size == 0:
        return 0
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    return int(np.cumsum(np.where(opening, 1, -1)).max())


def parse_json(raw: bytes, *, depth_max: int) -> Any:
    """The value of a JSON text. Raises HTTPException 400 for a deeper nesting, orjson.JSONDecodeError."""
    if nesting(raw) > depth_max:
        raise HTTPException(400)
    return orjson.loads(raw)


class JsonRequest(Request):
    """A request whose `json()` bounds nesting and refuses what is not JSON."""

    async def receive_body(self, body: CountedBody) -> None:
        """Read the body, so that `body()` and `json()` have it."""
        self._body = await body.read(self)

    async def json(self) -> Any:
        return parse_json(await self.body(), depth_max=self.app.state.json_depth_max)


class JsonRoute(APIRoute):
    """An `APIRoute` that authenticates and checks the role before it reads a body.

    It counts the body as the caller's memory and reads it as `JsonRequest` does. A route with an optional body also
    takes a request without one.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        takes_body = self.body_field is not None
        needs_body = self.body_field is not None and self.body_field.field_info.is_required()
        needed = tuple(needs_of(self.dependant))

        async def handle(request: Request) -> Response:
            json_request = JsonRequest(request.scope, request.receive)
            if not takes_body:
                return await handler(json_request)
            identity = await identify(request)
            for needs in needed:
                await needs(request)
            content_type = request.headers.get("content-type", "")
            if (needs_body or content_type) and not is_json(content_type):
                raise HTTPException(415)
            memory: BodyMemory = request.app.state.body_memory
            with memory.of(identity.tenant if isinstance(identity, Caller) else SHARED_OWNER) as body:
                await json_request.receive_body(body)
                return await handler(json_request)

        return handle


def is_json(content_type: str) -> bool:
    media = content_type.split(";", 1)[0].strip().lower()
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))

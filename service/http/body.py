"""JSON bodies: one route class for every endpoint that takes one.

A body is measured before it is parsed: a scan of its brackets and commas bounds the nesting, the number of values and
the number of arrays and objects, so that neither the parser nor the models of a body can be made to work or to
allocate beyond a known bound. `orjson` refuses NaN, Infinity and trailing text. Any other media type gets 415.
The models derive from `service/http/strict.py`.

The memory of bodies is counted by tenant as the bytes arrive, and limited.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from fastapi import Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from core import spans
from core.errors import ClientGone, InvalidInput
from core.redis.names import SHARED_OWNER
from gpu_workers.engine.fairness import BytesTicket, MemoryShares
from service.admission import LoadLimits, is_large
from service.config.settings import Settings
from service.http.answers import AnswerRoute
from service.http.auth import Caller, identify, needs_of
from service.http.middleware import is_json
from service.parts import parts_of
from service.preparation import Preparation


class BodyMemory(MemoryShares):
    """The bytes of all bodies that this process holds."""

    def __init__(self, *, bytes_max: int, owner_bytes_max: int) -> None:
        super().__init__(
            bytes_max=bytes_max, owner_bytes_max=owner_bytes_max, limit="bodies_memory_per_tenant_bytes_max"
        )


async def read_body(request: Request, memory: BytesTicket) -> bytes:
    """The whole body, counted as it arrives. Raises TenantLimitReached, QueueFull, ClientGone."""
    chunks: list[bytes] = []
    try:
        async for chunk in request.stream():
            memory.take(len(chunk))
            chunks.append(chunk)
    except ClientDisconnect:
        raise ClientGone from None
    return b"".join(chunks)


_STEP_BYTES = 1024 * 1024  # scanned at once: other threads run between two steps
_VALUES_PER_CONTAINER = 8

_NOT_STRUCTURAL = bytes(set(range(256)) - set(b'"[]{},:'))
_QUOTE = ord('"')
_NESTING = np.zeros(256, dtype=np.int8)
_NESTING[[ord("["), ord("{")]] = 1
_NESTING[[ord("]"), ord("}")]] = -1
_BEFORE_A_VALUE = np.zeros(256, dtype=bool)
_BEFORE_A_VALUE[[ord(sign) for sign in "[{,:"]] = True


@dataclass(frozen=True)
class JsonLimits:
    """Limits of one JSON text. Keys count as values; there may be an eighth as many arrays and objects as values."""

    depth_max: int
    values_max: int

    @property
    def containers_max(self) -> int:
        return self.values_max // _VALUES_PER_CONTAINER


def json_limits(settings: Settings) -> JsonLimits:
    """The limits of a body, and of a line of a stream."""
    return JsonLimits(settings.json_depth_max, settings.json_values_max)


def check_json(raw: bytes, limits: JsonLimits) -> None:
    """Check the nesting and the number of values of a JSON text, without parsing it.

    Time is linear in its bytes, and memory is a few megabytes. A text that is not JSON may pass; the parser refuses it.

    Raises HTTPException 400 for a deeper nesting, InvalidInput for more values, arrays or objects.
    """
    # Counted inside of strings as well, these signs are no fewer than outside. Most bodies are within the limits so.
    opening = raw.count(b"[") + raw.count(b"{")
    if opening <= min(limits.depth_max, limits.containers_max) and (
        opening + raw.count(b",") + raw.count(b":") <= limits.values_max
    ):
        return
    depth = values = containers = 0
    inside = False  # of a string
    carried = b""  # a backslash whose escaped character is in the next step
    for start in range(0, len(raw), _STEP_BYTES):
        text = carried + raw[start : start + _STEP_BYTES]
        carried = b"\\" if (len(text) - len(text.rstrip(b"\\"))) % 2 else b""
        text = text[: len(text) - len(carried)].replace(b"\\\\", b"").replace(b'\\"', b"")
        signs = np.frombuffer(text.translate(None, _NOT_STRUCTURAL), dtype=np.uint8)
        within = np.logical_xor.accumulate(np.concatenate(([inside], signs == _QUOTE)))
        inside = bool(within[-1])
        outside = signs[~within[1:] & (signs != _QUOTE)]
        if outside.size == 0:
            continue
        steps = _NESTING[outside]
        depths = depth + np.cumsum(steps, dtype=np.int64)
        depth = int(depths[-1])
        values += int(np.count_nonzero(_BEFORE_A_VALUE[outside]))
        containers += int(np.count_nonzero(steps == 1))
        if int(depths.max()) > limits.depth_max:
            raise HTTPException(400)
        if values > limits.values_max or containers > limits.containers_max:
            raise InvalidInput(
                f"a JSON text holds at most {limits.values_max} values, and {limits.containers_max} arrays and objects",
                field="body",
            )


def parse_json(raw: bytes, limits: JsonLimits) -> Any:
    """The value of a JSON text. Raises orjson.JSONDecodeError, and as `check_json`."""
    check_json(raw, limits)
    return orjson.loads(raw)


class JsonRequest(Request):
    """A request whose body is received and measured before `json()` parses it."""

    async def receive_body(self, memory: BytesTicket, *, owner: str) -> None:
        """Read the body, so that `body()` and `json()` have it. Raises as `read_body` and `check_json`."""
        self._body = await read_body(self, memory)
        self._owner = owner
        await self._prepared(check_json, self._body, self.app.state.json_limits)

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = await self._prepared(orjson.loads, self._body)
        return self._json

    async def _prepared(self, work: Callable[..., Any], raw: bytes, *arguments: Any) -> Any:
        return await parts_of(self)[Preparation].run(self._owner, len(raw), work, raw, *arguments)


class JsonRoute(AnswerRoute):
    """An `AnswerRoute` that authenticates and checks the role before it reads a body.

    It counts the body as the caller's memory until the answer has been sent, and reads it as `JsonRequest` does. A
    route with an optional body also takes a request without one.
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
            owner = identity.tenant if isinstance(identity, Caller) else SHARED_OWNER
            parts = parts_of(request)
            held = request.state.exchange.held  # until the answer has been sent
            if is_large(request.headers):
                held.enter_context(await parts[LoadLimits].large_requests.wait(owner))
            memory = held.enter_context(parts[BodyMemory].opened(owner))
            with spans.span("receive and check"):
                await json_request.receive_body(memory, owner=owner)
            return await handler(json_request)

        return handle


async def take_large_place(request: Request, owner: str, *, texts: int) -> None:
    """Count a call of more texts than `documents_max` among the owner's large requests until its answer has been sent:
    the answer to many short texts is as large as a large body. Raises as `Turns.wait`."""
    parts = parts_of(request)
    if texts > parts[Settings].documents_max and not is_large(request.headers):  # one with a large body has its place
        request.state.exchange.held.enter_context(await parts[LoadLimits].large_requests.wait(owner))

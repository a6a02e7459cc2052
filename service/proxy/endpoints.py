"""Language models behind the gateway: the endpoints of OpenAI and Anthropic, so that their SDKs work unchanged.

Texts are masked before they leave, and answers are restored (`service/proxy/service.py`). There is no guarantee, which
the header `Privacy-Guarantee` says.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from core.errors import ClientGone
from service.deps import OpenStreamDep, ProxyDep
from service.http.auth import ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.disconnect import disconnect_of
from service.http.open_streams import OpenStream
from service.proxy.answers import EventAnswer, events, shown, whole
from service.proxy.client import Answer, EventStream
from service.proxy.dialects.registry import DIALECTS
from service.proxy.service import Outgoing, ProxyParts

router = APIRouter(route_class=JsonRoute, tags=["language models"])

GUARANTEE = {"Privacy-Guarantee": "none"}
Policy = Annotated[str | None, Header(alias="Privacy-Policy", max_length=64, description="A policy of yours.")]
Conversation = Annotated[
    str | None,
    Header(
        alias="Privacy-Conversation",
        max_length=256,
        description="What the surrogates of a conversation have in common. By default, the user's first message.",
    ),
]


class ModelRequest(BaseModel):
    """A request in the format of the upstream, with all of its members."""

    model_config = ConfigDict(strict=True, extra="allow", hide_input_in_errors=True)

    model: str = Field(description="A model; GET /v1/models lists them.")


async def _proxied(
    _: ModelRequest,
    request: Request,
    caller: ReleaseCallerDep,
    parts: ProxyDep,
    open_: OpenStreamDep,
    policy: Policy = None,
    conversation: Conversation = None,
) -> Response:
    dialect = DIALECTS[request.scope["route"].path]
    async with disconnect_of(request) as client_disconnected:
        outgoing = await parts.service.outgoing(
            caller,
            dialect,
            await request.json(),
            policy=policy,
            conversation=conversation,
            client_disconnected=client_disconnected,
        )
        parts.shares.take(outgoing.upstream.name, caller.tenant, request.state.exchange.held)
        found = await _called(parts, outgoing, request, open_, client_disconnected)
    request.state.headers |= GUARANTEE
    if isinstance(found, Answer):
        return await whole(found, outgoing, parts.preparation, tenant=caller.tenant)
    answer = EventAnswer(events(found, outgoing, open_), idle_s=parts.settings.stream_idle_s)
    answer.headers.update(shown(found.headers))
    return answer


async def _called(
    parts: ProxyParts,
    outgoing: Outgoing,
    request: Request,
    open_: OpenStream,
    client_disconnected: asyncio.Event,
) -> Answer | EventStream:
    """The upstream's answer, whose call ends if the client leaves or its key ends. Raises ClientGone."""
    call = parts.client.stream if outgoing.streams else parts.client.send
    calling: asyncio.Task[Answer | EventStream] = asyncio.create_task(
        call(outgoing.upstream, outgoing.path, outgoing.body, request.headers)
    )
    ends = [asyncio.create_task(client_disconnected.wait()), asyncio.create_task(open_.ended.wait())]
    try:
        await asyncio.wait([calling, *ends], return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            return calling.result()
        if open_.error is not None:
            raise open_.error
        raise ClientGone
    finally:
        for task in (calling, *ends):
            task.cancel()


for _path, _dialect in DIALECTS.items():
    router.add_api_route(
        _path,
        _proxied,
        methods=["POST"],
        summary="A language model, in the format of "
        + ("OpenAI" if _dialect.upstream_kind == "openai" else "Anthropic"),
        operation_id=_dialect.name,
        response_class=Response,
    )

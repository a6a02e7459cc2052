"""Language models behind the gateway: the endpoints of OpenAI and Anthropic, so that their SDKs work unchanged.

Texts are masked before they leave, and answers are restored (`service/proxy/service.py`). The header
`Privacy-Guarantee` says what is guaranteed: nothing, unless the policy fills with a price (`service/proxy/priced.py`).
`DIALECTS` are the wire formats, one row each, by the path of their endpoint, and `COUNTING` those that count tokens.
"""

import asyncio
from typing import Annotated, Any, NotRequired

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from core.errors import ClientGone, NotStarted, TaskFailed, UnknownName
from core.master_key import MasterKey
from core.redis.client import LedgerClient
from core.state.masking_counts import MaskingCounts
from core.state.vault import Vault
from service.admission import LoadLimits
from service.capability import Capability
from service.config.settings import Settings
from service.http.answers import IDEMPOTENT, doc
from service.http.auth import ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.exchange import OpenStream, OpenStreamDep, disconnect_of
from service.isolation import Isolation
from service.parts import Part, Parts
from service.preparation import Preparation
from service.proxy.answers import EventAnswer, events, shown, whole
from service.proxy.client import EventStream, UpstreamAnswer, UpstreamClient, client_limits
from service.proxy.dialects.anthropic_messages import AnthropicMessages
from service.proxy.dialects.openai_chat import OpenAIChat
from service.proxy.dialects.openai_responses import OpenAIResponses
from service.proxy.dialects.protocol import Dialect
from service.proxy.kept_conversations import KeptConversations
from service.proxy.masking import ConversationMasking
from service.proxy.priced import Payer, PricedFills
from service.proxy.service import OutgoingCall, ProxyParts, ProxyService
from service.proxy.upstreams import Upstream, Upstreams, load_upstreams
from service.proxy.vault_endpoints import router as vault_router
from service.releases.pipeline import ReleasePipeline
from service.sanitize.policies import Policies
from service.sanitize.service import SanitizeService

_ROWS: tuple[Dialect, ...] = (OpenAIChat(), OpenAIResponses(), AnthropicMessages())
DIALECTS: dict[str, Dialect] = {dialect.path: dialect for dialect in _ROWS}
COUNTING: dict[str, Dialect] = {dialect.counting_path: dialect for dialect in _ROWS if dialect.counting_path}


router = APIRouter(route_class=JsonRoute, tags=["language models"])

RETRY = "X-Should-Retry"
_NOT_OFFERED = (404, 405, 501)  # by an upstream in the place of a count
Policy = Annotated[str | None, Header(alias="Privacy-Policy", max_length=64, description="A policy of yours.")]
Conversation = Annotated[
    str | None,
    Header(
        alias="Privacy-Conversation",
        max_length=256,
        description="What the surrogates of a conversation have in common. By default, the user's first message.",
    ),
]
Subject = Annotated[
    str | None,
    Header(
        alias="Privacy-Subject",
        max_length=256,
        description="Whose budget pays for a fill with a price, for a tenant in `subject` mode.",
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
    parts: Part[ProxyParts],
    open_: OpenStreamDep,
    policy: Policy = None,
    conversation: Conversation = None,
    subject: Subject = None,
) -> Response:
    path = request.scope["route"].path
    counts = path in COUNTING
    dialect = COUNTING[path] if counts else DIALECTS[path]

    async def take_call(upstream: Upstream) -> None:
        parts.client.check_capacity(upstream)
        await parts.shares.take(upstream.name, caller.tenant, request.state.exchange.held)

    async with disconnect_of(request) as client_disconnected:
        outgoing = await parts.service.outgoing(
            Payer(request, caller, subject),
            dialect,
            await request.json(),
            policy=policy,
            conversation=conversation,
            take_call=take_call,
            client_disconnected=client_disconnected,
            counts=counts,
        )
        request.state.headers |= outgoing.headers
        if outgoing.charged:  # each retry would cost again
            request.state.headers[RETRY] = "false"
        found = await _called(parts, outgoing, request, open_, client_disconnected)
    if isinstance(found, UpstreamAnswer):
        if counts and found.status in _NOT_OFFERED:
            raise UnknownName(
                "The upstream of this model counts no tokens by this endpoint, or has no such model.",
                code="unknown-model",
            )
        answer = await whole(found, outgoing, parts.preparation, tenant=caller.tenant)
        if outgoing.charged:
            answer.headers[RETRY] = "false"
        return answer
    stream = EventAnswer(events(found, outgoing, open_), idle_s=parts.settings.stream_idle_s)
    stream.headers.update(shown(found.headers))
    return stream


async def _called(
    parts: ProxyParts, outgoing: OutgoingCall, request: Request, open_: OpenStream, client_disconnected: asyncio.Event
) -> UpstreamAnswer | EventStream:
    """The upstream's answer, whose call ends if the client leaves or its key ends. Raises ClientGone."""
    call = parts.client.stream if outgoing.streams else parts.client.send
    calling: asyncio.Task[UpstreamAnswer | EventStream] = asyncio.create_task(
        call(outgoing.upstream, outgoing.path, outgoing.body, request.headers)
    )
    ends = [asyncio.create_task(client_disconnected.wait()), asyncio.create_task(open_.ended.wait())]
    try:
        await asyncio.wait([calling, *ends], return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            return _result(calling, charged=outgoing.charged)
        if open_.error is not None:
            raise open_.error
        raise ClientGone
    finally:
        for task in (calling, *ends):
            task.cancel()


def _result(calling: asyncio.Task[UpstreamAnswer | EventStream], *, charged: bool) -> UpstreamAnswer | EventStream:
    """The upstream's answer. A call that had no place, for which budget was spent before, is an error that says so."""
    try:
        return calling.result()
    except NotStarted:
        if not charged:
            raise
        raise TaskFailed(reason="upstream-full") from None


for _path, _dialect in DIALECTS.items():
    router.add_api_route(
        _path,
        _proxied,
        methods=["POST"],
        summary="A language model, in the format of "
        + ("OpenAI" if _dialect.upstream_kind == "openai" else "Anthropic"),
        operation_id=_dialect.name,
        response_model=dict[str, Any],
        response_description="The answer of the upstream, restored; server-sent events if the request asks for them.",
        openapi_extra=IDEMPOTENT,
    )


class MessageTokens(TypedDict):
    """The tokens of a masked request, in Anthropic's shape."""

    input_tokens: Annotated[int, doc("How many tokens the upstream counts in what would leave.")]
    context_management: NotRequired[Annotated[Any, doc("What the upstream adds for its context management.")]]


class ResponseTokens(TypedDict):
    """The tokens of a masked request, in OpenAI's shape."""

    object: Annotated[str, doc("Always `response.input_tokens`.")]
    input_tokens: Annotated[int, doc("How many tokens the upstream counts in what would leave.")]


_COUNTS: dict[str, Any] = {"openai": ResponseTokens, "anthropic": MessageTokens}
for _path, _dialect in COUNTING.items():
    router.add_api_route(
        _path,
        _proxied,
        methods=["POST"],
        summary="The tokens of a request to a language model, as it would leave",
        description="The request is masked as the endpoint that generates masks it, and the upstream counts its "
        "tokens. Nothing is generated or kept. A policy whose fill has a price is refused: such a count would cost as "
        "much as the request.",
        operation_id=f"{_dialect.name}_tokens",
        response_model=_COUNTS[_dialect.upstream_kind],
        response_description="The answer of the upstream.",
    )


def _vault(parts: Parts) -> Vault:
    settings = parts[Settings]
    return Vault(
        parts[LedgerClient],
        parts[MasterKey],
        entries_max=settings.vault_entries_max,
        bytes_max=settings.vault_bytes_max,
    )


def _masking(parts: Parts) -> ConversationMasking:
    return ConversationMasking(
        parts[Settings],
        policies=parts[Policies],
        sanitize=parts[SanitizeService],
        releases=parts[ReleasePipeline],
        preparation=parts[Preparation],
        surrogate_key=parts[MasterKey].surrogate_key,
        counts=parts[MaskingCounts],
    )


def _priced(parts: Parts) -> PricedFills:
    return PricedFills(
        parts[Settings],
        sanitize=parts[SanitizeService],
        releases=parts[ReleasePipeline],
        preparation=parts[Preparation],
    )


def _service(parts: Parts) -> ProxyService:
    return ProxyService(
        parts[Settings],
        upstreams=parts[Upstreams],
        policies=parts[Policies],
        sanitize=parts[SanitizeService],
        surrogate_key=parts[MasterKey].surrogate_key,
        masking=_masking(parts),
        kept=KeptConversations(parts[Vault], parts[Settings], parts[Preparation]),
        priced=_priced(parts),
        preparation=parts[Preparation],
        isolation=parts[Isolation],
    )


def _client(parts: Parts) -> UpstreamClient:
    settings = parts[Settings]
    return UpstreamClient(parts[Upstreams].all, client_limits(settings), send_trace=settings.traces_send_to_upstreams)


def _of_endpoints(parts: Parts) -> ProxyParts:
    return ProxyParts(
        parts[Settings], parts[ProxyService], parts[UpstreamClient], parts[LoadLimits].calls, parts[Preparation]
    )


CAPABILITY = Capability(
    name="proxy",
    routers=[router, vault_router],
    services={
        Upstreams: lambda parts: load_upstreams(parts[Settings]),
        Vault: _vault,
        ProxyService: _service,
        UpstreamClient: _client,
        ProxyParts: _of_endpoints,
    },
    end=lambda parts: parts[UpstreamClient].aclose(),
)

"""LiteLLM's guardrail contract: texts are masked before they leave LiteLLM, and restored in the answer.

LiteLLM makes one call for a request and others for its answer, and the calls for the answer do not have the request.
What restores an answer is therefore kept in the vault, sealed, by LiteLLM's call id and by which of its keys asks. The
body is the one that LiteLLM 1.108 sends for its guardrail `generic_guardrail_api`.

Guarantee: none beyond `core.text.reversible`, for the texts that LiteLLM shows. What it takes back determines what can
leave: a request that has a value in a place that LiteLLM does not take back is blocked.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Annotated, Any, Literal, NotRequired

import orjson
from pydantic import ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from core.errors import InvalidInput
from core.state.vault import Vault
from core.text.reversible.mapping import Content
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.conversation_tasks import Beginning, BeginningsTask
from service.config.settings import TEXTS_TAKEN, Settings
from service.http.answers import doc
from service.http.auth import Caller
from service.http.strict import AtMost, Strict, invalid_request
from service.preparation import Preparation
from service.proxy.dialects.openai_chat import REQUEST, TOOL_CALL_LIST
from service.proxy.dialects.protocol import first_text_of_user
from service.proxy.dialects.shapes import slots_of
from service.proxy.service import ProxyService
from service.proxy.slots import Slot, SlotKind
from service.releases.pipeline import ReleasePipeline
from service.releases.request import Work

Objects = Annotated[list[dict[str, Any]], AtMost(TEXTS_TAKEN)]
Strings = Annotated[list[str], AtMost(TEXTS_TAKEN)]


class GuardrailRequest(Strict):
    """Texts of a request before it leaves, or of its answer. Members that are not named have no effect."""

    model_config = ConfigDict(extra="ignore")

    input_type: Literal["request", "response"]
    litellm_call_id: str | None = Field(None, min_length=1, max_length=256)
    texts: Strings | None = None
    structured_messages: Objects | None = Field(None, description="Messages in the format of OpenAI.")
    tools: Objects | None = None
    tool_calls: Objects | None = None
    images: Strings | None = None
    request_data: dict[str, Any] | None = Field(None, description="Which of LiteLLM's keys and users asks.")
    additional_provider_specific_params: dict[str, Any] | None = Field(
        None, description="`policy`, `conversation` and `tool_calls` are read."
    )


class GuardrailParameters(Strict):
    """What the configuration of the guardrail says. `conversation`: what its surrogates have in common, by default the
    first message of the user. `tool_calls`: what happens to an answer with a tool call whose arguments have surrogates,
    because LiteLLM takes no restored arguments."""

    model_config = ConfigDict(extra="ignore")

    policy: str | None = Field(None, max_length=64)
    conversation: str | None = Field(None, max_length=256)
    tool_calls: Literal["block", "pass"] = "block"


class Decision(TypedDict):
    """What LiteLLM does with a request or an answer."""

    action: Annotated[str, doc("`NONE`, `GUARDRAIL_INTERVENED` for other texts, or `BLOCKED`.")]
    texts: NotRequired[Annotated[Sequence[str], doc("The texts, in their order; absent if it is blocked.")]]
    structured_messages: NotRequired[Annotated[list[Any], doc("The messages, masked; of a request that has them.")]]
    tools: NotRequired[Annotated[list[Any], doc("The tools, masked; of a request that has them.")]]
    stream_holdback_chars: NotRequired[Annotated[list[int], doc("How many characters of each text may still change.")]]
    blocked_reason: NotRequired[Annotated[str, doc("Why it is blocked.")]]


BLOCKED, NONE, INTERVENED = "BLOCKED", "NONE", "GUARDRAIL_INTERVENED"
_PARAMETERS = "additional_provider_specific_params"
_REPEATS_MAX = 3  # of a text: in a message, a tool call and the texts
_CONTENT_FACTOR = 64  # the most that what is kept may expand
_UNPACK_WORK = 8  # the time to read a byte of what is kept, against one of plain JSON
# who asks, as LiteLLM says in both calls; the same call id of another key finds nothing
_IDENTITY = ("user_api_key_hash", "user_api_key_user_id", "user_api_key_team_id", "user_api_key_org_id")
_CONTENT = re.compile(r"messages\.\d+\.content(?:\.\d+\.text)?")
_UNKNOWN_CALL = "The surrogates of this call are not known: its request was not masked, or its time is over."


@dataclass(frozen=True)
class Shown:
    """What LiteLLM shows of a request. It is masked in place."""

    messages: list[dict[str, Any]] = field(repr=False)
    tools: list[dict[str, Any]] = field(repr=False)
    tool_calls: list[dict[str, Any]] = field(repr=False)
    texts: list[str] = field(repr=False)

    def slots(self, unread: frozenset[str]) -> Iterator[Slot]:
        """Every text. Raises InvalidInput for a member that may not leave unread, by its path in a request."""
        body = {"messages": self.messages, "tools": self.tools}
        texts = (Slot(self.texts, number, SlotKind.TEXT, f"texts.{number}") for number in range(len(self.texts)))
        calls = slots_of(TOOL_CALL_LIST, {"tool_calls": self.tool_calls}, strict=True, unread=unread)
        return chain(slots_of(REQUEST, body, strict=True, unread=unread), calls, texts)


class GuardrailService:
    """Decides about texts for LiteLLM."""

    def __init__(
        self,
        settings: Settings,
        *,
        proxy: ProxyService,
        vault: Vault,
        releases: ReleasePipeline,
        preparation: Preparation,
    ) -> None:
        self._settings = settings
        self._proxy = proxy
        self._vault = vault
        self._releases = releases
        self._preparation = preparation

    async def decision(
        self, caller: Caller, body: GuardrailRequest, client_disconnected: asyncio.Event, *, size: int
    ) -> Decision:
        """What LiteLLM shall do. A request that cannot be masked is `BLOCKED`, with a reason that repeats nothing.
        `size`: the bytes of the request.

        Raises what the engine and the vault raise, and InvalidInput where the guardrail is off, and for an answer whose
        request was not masked: LiteLLM then fails the call."""
        if self._settings.guardrail_lifetime_s == 0:
            raise InvalidInput("The operator has turned the guardrail off.", field="input_type")
        parameters = _parameters(body)
        if body.litellm_call_id is None:
            raise InvalidInput("Without a call id an answer could not be restored.", field="litellm_call_id")
        name = _name(body.litellm_call_id, body.request_data or {})
        if body.input_type == "response":
            return await self._restored(caller, body, parameters, name, client_disconnected)
        try:
            return await self._masked(caller, body, parameters, name, client_disconnected, size=size)
        except InvalidInput as error:
            return _blocked(error.detail, error.field)

    async def _masked(
        self,
        caller: Caller,
        body: GuardrailRequest,
        parameters: GuardrailParameters,
        name: str,
        client_disconnected: asyncio.Event,
        *,
        size: int,
    ) -> Decision:
        """Raises InvalidInput for what the policy refuses, and for what LiteLLM would not take back."""
        shown = Shown(body.structured_messages or [], body.tools or [], body.tool_calls or [], body.texts or [])
        terms = self._proxy.proxy_terms(caller.tenant, parameters.policy)
        if body.images and terms.media == "refuse":
            raise InvalidInput("Images cannot be read, so they are refused by the policy.", field="images")
        texts = frozenset(shown.texts)
        found, slots, repeated = await self._preparation.run(
            caller.tenant, size, _slots_of, shown, frozenset(terms.unread), self._settings.proxy_texts_max
        )
        surrogates = await self._proxy.masked(
            caller,
            slots,
            {"messages": shown.messages},
            policy=parameters.policy,
            first=first_text_of_user(shown.messages) or next(iter(shown.texts), ""),
            conversation=parameters.conversation,
            size=size,
            client_disconnected=client_disconnected,
        )
        for slot, first in repeated:
            slot.value = first.value
        changed = [(slot.path, value) for slot, value in found if slot.value != value]
        _check_taken_back(changed)
        await self._keep(caller.tenant, name, surrogates.content)
        decision: Decision = {"action": INTERVENED if changed else NONE, "texts": shown.texts}
        if any(path.startswith("tools.") for path, _ in changed):
            decision["tools"] = shown.tools
        if any(path.startswith("messages.") and not _is_text(path, value, texts) for path, value in changed):
            decision["structured_messages"] = shown.messages
        return decision

    async def _keep(self, tenant: str, name: str, content: Content) -> None:
        """Keep what restores the answer. Raises InvalidInput for too much; TenantLimitReached, LedgerUnavailable."""
        size = sum(len(pair.original) + len(pair.surrogate) for pair in content.pairs)
        packed = await self._preparation.run(tenant, size, content.packed)
        if len(packed) > self._settings.vault_entry_bytes_max:
            raise InvalidInput("So much is masked that it cannot be kept for the answer.", field="texts")
        await self._vault.put(tenant, name, packed, lifetime_s=self._settings.guardrail_lifetime_s)

    async def _restored(
        self,
        caller: Caller,
        body: GuardrailRequest,
        parameters: GuardrailParameters,
        name: str,
        client_disconnected: asyncio.Event,
    ) -> Decision:
        """Raises InvalidInput for a call whose surrogates are not known, and for too much text."""
        texts = body.texts or []
        if sum(map(len, texts)) > self._settings.proxy_chars_max:
            raise InvalidInput(f"At most {self._settings.proxy_chars_max} characters.", field="texts")
        packed = await self._vault.get(caller.tenant, name)
        if packed is None:
            raise InvalidInput(_UNKNOWN_CALL, field="litellm_call_id")
        bytes_max = _CONTENT_FACTOR * self._settings.vault_entry_bytes_max
        content = await self._preparation.run(
            caller.tenant, _UNPACK_WORK * len(packed), Content.unpacked, packed, bytes_max=bytes_max
        )
        if not content.pairs:
            return {"action": NONE, "texts": texts}
        calls = slots_of(TOOL_CALL_LIST, {"tool_calls": body.tool_calls or []}, strict=False)
        arguments = [slot.value for slot in calls if isinstance(slot.value, str)]
        found = await self._beginnings(caller, [*texts, *arguments], content, client_disconnected)
        if parameters.tool_calls == "block" and [each.text for each in found[len(texts) :]] != arguments:
            return _blocked(
                "LiteLLM takes no restored arguments of tool calls, and these have surrogates.", "tool_calls"
            )
        restored = [each.text for each in found[: len(texts)]]
        return {
            "action": NONE if restored == texts else INTERVENED,
            "texts": restored,
            "stream_holdback_chars": [each.open_chars for each in found[: len(texts)]],
        }

    async def _beginnings(
        self, caller: Caller, texts: Sequence[str], content: Content, client_disconnected: asyncio.Event
    ) -> list[Beginning]:
        task = BeginningsTask(texts, content)
        work = Work(role=Role.SANITIZE, tasks=[Task(task, task.weight)])
        (found,) = await self._releases.results(caller, work, client_disconnected)
        beginnings: list[Beginning] = found
        return beginnings


def _slots_of(
    shown: Shown, unread: frozenset[str], texts_max: int
) -> tuple[list[tuple[Slot, str]], list[Slot], list[tuple[Slot, Slot]]]:
    """The slots that may change, with what they hold, and the results of `_without_repeats`. Raises InvalidInput for
    more than LiteLLM shows of `texts_max` texts."""
    slots = list(islice(shown.slots(unread), _REPEATS_MAX * texts_max + 1))
    if len(slots) > _REPEATS_MAX * texts_max:
        raise InvalidInput(f"A request has at most {texts_max} texts.", field="texts")
    return [(slot, slot.value) for slot in slots if slot.kind is not SlotKind.MEDIA], *_without_repeats(slots)


def _without_repeats(slots: Iterable[Slot]) -> tuple[list[Slot], list[tuple[Slot, Slot]]]:
    """The slots to mask, and those of texts and tool calls that repeat what stands in a message, with it: LiteLLM shows
    most of a request twice."""
    kept: list[Slot] = []
    repeated: list[tuple[Slot, Slot]] = []
    known: dict[tuple[SlotKind, str], Slot] = {}
    for slot in slots:
        if slot.path.startswith("messages."):
            if slot.kind in (SlotKind.TEXT, SlotKind.JSON) and not slot.path.endswith(".name"):
                known.setdefault((slot.kind, slot.value), slot)
        elif isinstance(slot.value, str) and (first := known.get((slot.kind, slot.value))) is not None:
            repeated.append((slot, first))
            continue
        kept.append(slot)
    return kept, repeated


def _is_text(path: str, value: str, texts: Set[str]) -> bool:
    """Whether LiteLLM replaces what stands in a message by what is returned for one of its texts."""
    return _CONTENT.fullmatch(path) is not None and value in texts


def _check_taken_back(changed: Sequence[tuple[str, str]]) -> None:
    """Raise InvalidInput for a changed tool call that stands in no message: LiteLLM takes back messages, tools and
    texts."""
    within = {value for path, value in changed if path.startswith("messages.") and ".tool_calls." in path}
    for path, value in changed:
        if path.startswith("tool_calls.") and value not in within:
            raise InvalidInput("LiteLLM takes no masked arguments of tool calls, and these have values.", field=path)


def _parameters(body: GuardrailRequest) -> GuardrailParameters:
    try:
        return GuardrailParameters.model_validate(body.additional_provider_specific_params or {})
    except ValidationError as error:
        raise invalid_request(error, _PARAMETERS) from None


def _name(call_id: str, request_data: Mapping[str, Any]) -> str:
    """The name of a call in the vault."""
    identity = [str(request_data.get(each) or "") for each in _IDENTITY]
    return orjson.dumps(["guardrail", call_id, *identity]).decode()


def _blocked(reason: str, field_: str | None) -> Decision:
    return {"action": BLOCKED, "blocked_reason": f"{reason} ({field_})" if field_ else reason}

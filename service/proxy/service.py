"""A request to a language model: masked or filled before it leaves. The answer to a masked one is restored.

Guarantee: where the policy fills with a price, that of `service.proxy.priced`. Otherwise none beyond
`core.text.reversible`: what the policy covers and the recognisers found is in no text that leaves for the upstream, and
what they did not find leaves as it is. Nothing is kept after the answer but where the finds of each text were
(`Finds`), and, if the policy says so, what continues a conversation that the upstream keeps
(`service.proxy.kept_conversations`).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import orjson

from core import spans
from core.errors import InvalidInput
from core.text.policy import SURROGATE
from core.text.recognisers.asked import Asked
from core.text.reversible.key_tree import KeyTree
from core.text.reversible.mapping import Content
from core.text.reversible.mapping import Mapping as Surrogates
from core.text.surrogates.draw import new_key
from service.config.settings import Settings
from service.http.auth import Caller
from service.isolation import Isolation
from service.preparation import Preparation
from service.proxy.client import UpstreamClient
from service.proxy.dialects.protocol import CONTINUED, STORE, Dialect
from service.proxy.kept_conversations import Keeping, Kept, KeptConversations
from service.proxy.masking import ConversationMasking
from service.proxy.outgoing import Field, by_system, noted, sources_of
from service.proxy.priced import Payer, PricedFills, is_priced
from service.proxy.shares import CallShares
from service.proxy.slots import Slot
from service.proxy.texts import TextLimits, read_texts
from service.proxy.turns import Conversation, conversation_of
from service.proxy.upstreams import Upstream, Upstreams
from service.sanitize import reversible
from service.sanitize.policies import Policies, ProxyTerms
from service.sanitize.schemas import Fill, Terms
from service.sanitize.service import SanitizeService

NO_GUARANTEE: Mapping[str, str] = MappingProxyType({"Privacy-Guarantee": "none"})
NOTHING_MASKED = Surrogates(Content((), "en"), KeyTree({}))
_BACKGROUND = "background"
_COUNT_REFUSED = (
    "The policy fills with a price, so that a count of tokens would release the texts and cost as much as the request "
    "itself. Count the answer's `usage`, or count by a policy without a price."
)


@dataclass(frozen=True)
class OutgoingCall:
    """A request that may leave, and what restores its answer. `headers`: what they tell the client. `charged`: whether
    budget was spent on it. `counts`: its tokens are counted, and nothing is generated."""

    dialect: Dialect
    upstream: Upstream
    body: bytes = field(repr=False)
    surrogates: Surrogates
    streams: bool
    structured: bool
    policy: str | None
    keeping: Keeping | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: NO_GUARANTEE)
    charged: bool = False
    counts: bool = False
    pseudonyms: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def path(self) -> str:
        path = self.dialect.counting_path if self.counts and self.dialect.counting_path else self.dialect.path
        return path.removeprefix("/v1") if self.upstream.kind == "openai" else path


@dataclass(frozen=True)
class ProxyParts:
    """What an endpoint for language models works with."""

    settings: Settings
    service: ProxyService
    client: UpstreamClient
    shares: CallShares
    preparation: Preparation


class ProxyService:
    """Makes masked requests of those of clients."""

    def __init__(
        self,
        settings: Settings,
        *,
        upstreams: Upstreams,
        policies: Policies,
        sanitize: SanitizeService,
        surrogate_key: Callable[[str], bytes],
        masking: ConversationMasking,
        kept: KeptConversations,
        priced: PricedFills,
        preparation: Preparation,
        isolation: Isolation,
    ) -> None:
        """`surrogate_key`: tenant -> the key of its surrogates."""
        self._settings = settings
        self._upstreams = upstreams
        self._policies = policies
        self._sanitize = sanitize
        self._surrogate_key = surrogate_key
        self._masking = masking
        self._kept = kept
        self._priced = priced
        self._preparation = preparation
        self._isolation = isolation

    async def outgoing(
        self,
        payer: Payer,
        dialect: Dialect,
        body: Any,
        *,
        policy: str | None,
        conversation: str | None,
        take_call: Callable[[Upstream], Awaitable[None]],
        client_disconnected: asyncio.Event,
        counts: bool = False,
    ) -> OutgoingCall:
        """The request that leaves. `body` is changed. `policy`, `conversation`: as the client names them in headers.
        `take_call` takes the caller's place in the calls of an upstream, or raises; nothing is charged without it.
        `counts`: the upstream counts the tokens of what would leave otherwise. It keeps nothing then.

        Raises InvalidInput, PolicyEnforced, UnknownName; what the engine raises; TaskFailed without surrogates; with a
        vault, TenantLimitReached, LedgerUnavailable.
        """
        caller, tenant = payer.caller, payer.caller.tenant
        size = len(await payer.request.body())
        upstream, model = self._upstreams.find(dialect.model(body), tenant, dialect.upstream_kind)
        spans.current().set("gateway.model", model)  # the upstream's name of it, from the operator's configuration
        terms = self._terms(tenant, policy)
        if counts and is_priced(terms):
            raise InvalidInput(_COUNT_REFUSED, field="policy")
        streams, structured = dialect.streams(body) and not counts, dialect.structured(body)
        key = self._surrogate_key(tenant)
        proxied = self._policies.proxied(terms.policy)
        pseudonyms: dict[str, str] = {}
        slots: Iterable[Slot] = noted(dialect.slots(body, frozenset(proxied.unread)), pseudonyms, key=key)
        slots, patterns_only = by_system(slots, body, proxied.system)
        if is_priced(terms):
            if _BACKGROUND in dialect.kept_by_upstream(body):
                raise InvalidInput("An answer in the background cannot be fetched.", field=_BACKGROUND)
            await self._check_owner(tenant, upstream, dialect, body, vault=proxied.vault)
            previous = dialect.continues(body) if proxied.vault else None
            earlier = None if previous is None else await self._kept.known(tenant, upstream.name, previous)
            fields = await self._fields(tenant, terms, slots, size=size)
            turns = await self._turns(tenant, fields, earlier, patterns_only)
            # A key that is made of a private text would show in later turns whether that text is the same. So would
            # a question in one: only what the model asks for is kept, which it wrote of what was filled.
            kept = Kept(new_key(), NOTHING_MASKED.content)
            asked = _asked_before(earlier)
            keeping = await self._keeping(tenant, upstream, dialect, body, kept, asked) if proxied.vault else None
            await take_call(upstream)
            headers = await self._priced.fill(payer, terms, fields, turns.texts, client_disconnected)
            sent = await self._preparation.run(tenant, size, _sent, body, model)
            filled = OutgoingCall(dialect, upstream, sent, NOTHING_MASKED, streams, structured, terms.policy)
            return replace(filled, keeping=keeping, headers=headers, charged=True, pseudonyms=pseudonyms)
        _refuse_recall(dialect, body, vault=proxied.vault)
        previous = dialect.continues(body)
        earlier = None if previous is None else await self._kept.find(tenant, upstream.name, previous)
        fields = await self._fields(tenant, terms, slots, size=size)
        turns = await self._turns(tenant, fields, earlier, patterns_only)
        first = dialect.messages_of_user(body)
        own_key = (
            _conversation_key(key, first if conversation is None else conversation) if earlier is None else earlier.key
        )
        surrogates = await self._masking.mask(
            caller,
            terms,
            fields,
            turns.texts,
            client_disconnected,
            model=model,
            own_key=own_key,
            first=first,
            earlier=None if earlier is None else earlier.content,
        )
        kept = Kept(own_key, surrogates.content)
        keeps = proxied.vault and not counts
        keeping = await self._keeping(tenant, upstream, dialect, body, kept, turns.asked) if keeps else None
        await take_call(upstream)
        sent = await self._preparation.run(tenant, size, _sent, body, model)
        masked = OutgoingCall(dialect, upstream, sent, surrogates, streams, structured, terms.policy)
        return replace(masked, keeping=keeping, pseudonyms=pseudonyms, counts=counts)

    async def masked(
        self,
        caller: Caller,
        slots: Iterable[Slot],
        body: Mapping[str, Any],
        *,
        policy: str | None,
        first: str,
        conversation: str | None,
        size: int,
        client_disconnected: asyncio.Event,
    ) -> Surrogates:
        """Mask texts that another service sends to a model, in place. `body`: what has them, as a request. `first`: the
        first message of the user. `conversation`: what its surrogates have in common, by default that message. `size`:
        the bytes of the request.

        Raises as `outgoing`."""
        terms = self._terms(caller.tenant, policy)
        if is_priced(terms):
            raise InvalidInput("The fill of this policy cannot be restored in an answer.", field="policy")
        slots, patterns_only = by_system(slots, body, self._policies.proxied(terms.policy).system)
        fields = await self._fields(caller.tenant, terms, slots, size=size)
        turns = await self._turns(caller.tenant, fields, None, patterns_only)
        seed = first if conversation is None else conversation
        own_key = _conversation_key(self._surrogate_key(caller.tenant), seed)
        return await self._masking.mask(
            caller,
            terms,
            fields,
            turns.texts,
            client_disconnected,
            model=None,
            own_key=own_key,
            first=first,
            earlier=None,
        )

    def proxy_terms(self, tenant: str, policy: str | None) -> ProxyTerms:
        """What a policy says of what may leave. Raises InvalidInput, PolicyEnforced."""
        return self._policies.proxied(self._terms(tenant, policy).policy)

    async def _keeping(
        self, tenant: str, upstream: Upstream, dialect: Dialect, body: Any, kept: Kept, asked: Asked
    ) -> Keeping | None:
        """The entry of an answer that the upstream keeps. Raises as `KeptConversations.keeping`."""
        if STORE not in dialect.kept_by_upstream(body):
            return None
        return await self._kept.keeping(tenant, upstream.name, kept, asked)

    async def _turns(
        self, tenant: str, fields: Sequence[Field], earlier: Kept | None, patterns_only: Callable[[Slot], bool]
    ) -> Conversation:
        size = sum(len(text) for each in fields for text in each.texts)
        return await self._preparation.run(tenant, size, conversation_of, fields, _asked_before(earlier), patterns_only)

    async def _check_owner(self, tenant: str, upstream: Upstream, dialect: Dialect, body: Any, *, vault: bool) -> None:
        """Refuse what an upstream recalls and another tenant may have caused: an upstream that several tenants share
        knows them as one. Raises InvalidInput, LedgerUnavailable."""
        if not self._upstreams.is_shared(upstream):
            return
        for path in dialect.kept_by_upstream(body):
            if path == CONTINUED and vault and (previous := dialect.continues(body)) is not None:
                await self._kept.find(tenant, upstream.name, previous)
            elif path != STORE:
                raise InvalidInput(
                    "Several tenants share this model, and the conversation may be another tenant's: send the "
                    "conversation itself, or continue an answer of a policy with a vault.",
                    field=path,
                )

    async def _fields(self, tenant: str, terms: Terms, slots: Iterable[Slot], *, size: int) -> list[Field]:
        """The fields of a request that have text; for a fill with a price also the others, which are written again as
        well, since their source is not public. `size`: the bytes of the request.

        Raises InvalidInput for what the policy refuses, and for too much text; NotStarted."""
        settings = self._settings
        limits = TextLimits(settings.proxy_chars_max, settings.proxy_texts_max)
        priced = is_priced(terms)
        found = await self._preparation.run(
            tenant,
            size,
            sources_of,
            slots,
            self._policies.proxied(terms.policy),
            limits,
            pseudonym_key=self._surrogate_key(tenant),
        )
        sources = [(slot.kind, source) for slot, source in found]
        try:
            reads = await self._isolation.run(
                tenant, sum(len(source) for _, source in sources), read_texts, sources, limits, priced, field=""
            )
        except InvalidInput as error:
            error.field = found[int(error.field)][0].path if error.field else None
            raise
        fields = [Field(slot, read) for (slot, _), read in zip(found, reads, strict=True)]
        return fields if priced else [each for each in fields if any(text.strip() for text in each.texts)]

    def _terms(self, tenant: str, policy: str | None) -> Terms:
        """The mask and fill of a request: realistic surrogates, if no policy says otherwise.

        Raises InvalidInput for a policy whose fill can neither be restored nor has a price.
        """
        terms = self._sanitize.applied(Terms() if policy is None else Terms(policy=policy), tenant)
        if terms.policy is None:
            return terms.model_copy(update={"fill": Fill(mode=SURROGATE)})
        if terms.fill.mode not in reversible.FILLS and not is_priced(terms):
            raise InvalidInput("The fill of this policy cannot be restored in an answer.", field="policy")
        return terms


def _asked_before(earlier: Kept | None) -> Asked:
    return Asked() if earlier is None else Asked(earlier.content.asked, turns=earlier.content.turns)


def _sent(body: dict[str, Any], model: str) -> bytes:
    body["model"] = model
    return orjson.dumps(body)


def _conversation_key(key: bytes, seed: str) -> bytes:
    """The key of a conversation's surrogates: a function of the tenant's key and of what starts the conversation."""
    return hmac.digest(key, b"conversation\0" + seed.encode("utf-8", "surrogatepass"), hashlib.sha256)


def _refuse_recall(dialect: Dialect, body: Mapping[str, Any], *, vault: bool) -> None:
    """Refuse a conversation that the upstream recalls and whose surrogates are not known. Raises InvalidInput."""
    for path in dialect.kept_by_upstream(body):
        if path != STORE and not (vault and path == CONTINUED):
            raise InvalidInput(
                "A conversation that the upstream keeps cannot be restored: send the conversation itself.", field=path
            )

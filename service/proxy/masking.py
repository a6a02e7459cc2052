"""Masks the texts of a conversation: recognisers read them, and one mapping of surrogates replaces what they found.

Clients send the whole conversation with every request, so most of its texts were read before. `Finds` keeps where and
of which type the finds were, in memory, by a keyed hash of tenant, policy and text. It holds no text. A short answer is
read with the question of the turn before it (`core.text.recognisers.asked`).

Guarantee: none beyond `core.text.reversible`.
"""

import asyncio
import hashlib
import hmac
import pickle
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from core import spans
from core.errors import InvalidInput
from core.memory import ByteCache
from core.state.masking_counts import MaskingCounts
from core.text.policy import AUTO, PER_TENANT
from core.text.reversible.mapping import Content, MaskedConversation
from core.text.reversible.mapping import Mapping as Surrogates
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from service.config.settings import Settings
from service.http.auth import Caller
from service.preparation import Preparation
from service.proxy.outgoing import Field
from service.proxy.turns import TURN, Turned
from service.releases.pipeline import ReleasePipeline
from service.releases.request import Work
from service.sanitize import reversible
from service.sanitize.policies import Policies
from service.sanitize.reversible import NOTHING, TextFinds, read_of
from service.sanitize.schemas import Fill, SanitizeRequest, Terms, TextDocument
from service.sanitize.service import SanitizeService


class Finds:
    """Used on the event loop only, without locks."""

    def __init__(self, bytes_max: int) -> None:
        self._key = secrets.token_bytes(32)
        self._kept: ByteCache[bytes, TextFinds] = ByteCache(bytes_max)

    def name(self, tenant: str, task: DocumentTask) -> bytes:
        """The name of what is found by a task: a keyed hash, which tells nothing without the key of this process."""
        parts = pickle.dumps((tenant, task.policy, task.text), protocol=5)
        return hmac.digest(self._key, parts, hashlib.sha256)

    def get(self, name: bytes) -> TextFinds | None:
        return self._kept.get(name)

    def keep(self, name: bytes, read: TextFinds) -> None:
        if self._kept.get(name) is None:
            self._kept.put(name, read, read.size)


_DOCUMENT = re.compile(r"documents\.(\d+)")


class ConversationMasking:
    """Masks the conversations of all tenants."""

    def __init__(
        self,
        settings: Settings,
        *,
        policies: Policies,
        sanitize: SanitizeService,
        releases: ReleasePipeline,
        preparation: Preparation,
        surrogate_key: Callable[[str], bytes],
        counts: MaskingCounts,
    ) -> None:
        """`surrogate_key`: tenant -> the key of its surrogates. `counts`: where finds and refusals are counted."""
        self._counts = counts
        self._policies = policies
        self._sanitize = sanitize
        self._releases = releases
        self._preparation = preparation
        self._surrogate_key = surrogate_key
        self._finds = Finds(settings.proxy_finds_bytes_max)

    @spans.step("mask a conversation")
    async def mask(
        self,
        caller: Caller,
        terms: Terms,
        fields: Sequence[Field],
        turned: Sequence[Sequence[Turned]],
        client_disconnected: asyncio.Event,
        *,
        model: str | None,
        own_key: bytes,
        first: str,
        earlier: Content | None,
    ) -> Surrogates:
        """Mask the fields in place. `turned`: their texts. `model`: whose request it is, for the counts. `own_key`: of
        the conversation's surrogates, unless they are those of the tenant. `first`: the first message of the user.
        `earlier`: what earlier turns were masked with.

        Raises InvalidInput for what the policy refuses; what the engine raises; TaskFailed without surrogates."""
        block = self._policies.proxied(terms.policy).block
        finds: Counter[str] = Counter()
        try:
            reads = await self._read(caller, terms, fields, turned, client_disconnected, finds)
            for each, own in zip(fields, reads, strict=True):
                for read in own:
                    _refuse_blocked(read, block, each.slot.path)
        except InvalidInput:
            self._counts.note(caller.tenant, caller.key_id, model, refused=1, finds=finds)
            raise
        self._counts.note(caller.tenant, caller.key_id, model, requests=1, finds=finds)
        # system prompts and tools stand first, wherever the request has them, since later turns come after them
        ordered = sorted(zip(fields, reads, strict=True), key=lambda pair: TURN.match(pair[0].slot.path) is not None)
        texts = [text for each, _ in ordered for text in each.texts]
        language = reversible.first_language(texts, [read for _, own in ordered for read in own], first)
        return await self._mask(
            caller,
            fields,
            reads,
            client_disconnected,
            key=self._surrogate_key(caller.tenant) if terms.fill.consistency == PER_TENANT else own_key,
            language=language if terms.mask.language == AUTO else terms.mask.language,
            fill=terms.fill.mode,
            earlier=earlier,
        )

    async def _read(
        self,
        caller: Caller,
        terms: Terms,
        fields: Sequence[Field],
        turned: Sequence[Sequence[Turned]],
        client_disconnected: asyncio.Event,
        finds: Counter[str],
    ) -> list[list[TextFinds]]:
        """What was found in each text of each field. `finds` gets the types of finds in texts that are new.

        Raises InvalidInput for a language that the policy refuses."""
        paths = {
            text: each.slot.path
            for each, own in zip(reversed(fields), reversed(turned), strict=True)
            if each.is_inspected
            for text in own
            if text.text.strip()
        }
        texts = await self._read_texts(caller, terms, paths, client_disconnected, finds)
        found = dict(zip(paths, texts, strict=True))
        reads = [
            [found.get(text, NOTHING) if each.is_inspected else NOTHING for text in own]
            for each, own in zip(fields, turned, strict=True)
        ]
        for each, own_reads in zip(fields, reads, strict=True):
            if any(read.refused for read in own_reads):
                raise InvalidInput("The text is in no language that the policy accepts.", field=each.slot.path)
        return reads

    async def _read_texts(
        self,
        caller: Caller,
        terms: Terms,
        paths: Mapping[Turned, str],
        client_disconnected: asyncio.Event,
        finds: Counter[str],
    ) -> list[TextFinds]:
        """What was found in each text of `paths`, which says where it stands first."""
        tenant = caller.tenant
        size = sum(len(each.text) for each in paths)
        tasks = await self._preparation.run(tenant, size, self._tasks, tenant, terms, paths)
        names = await self._preparation.run(tenant, size, lambda: [self._finds.name(tenant, task) for task in tasks])
        kept = {name: read for name in names if (read := self._finds.get(name)) is not None}
        missing = {name: task for name, task in zip(names, tasks, strict=True) if name not in kept}
        if missing:
            size = sum(len(task.text) for task in missing.values())
            weighed = await self._preparation.run(tenant, size, _weighed, missing.values())
            results = await self._run(caller, weighed, client_disconnected)
            for name, result in zip(missing, results, strict=True):
                kept[name] = read_of(result)
                self._finds.keep(name, kept[name])
                finds.update(region.type for region in kept[name].regions)
        return [kept[name] for name in names]

    async def _mask(
        self,
        caller: Caller,
        fields: Sequence[Field],
        reads: Sequence[Sequence[TextFinds]],
        client_disconnected: asyncio.Event,
        *,
        key: bytes,
        language: str | None,
        fill: str,
        earlier: Content | None,
    ) -> Surrogates:
        """Mask the fields in place. Returns the surrogates of the conversation. Raises TaskFailed without them."""
        texts = [text for each in fields for text in each.texts]
        size = sum(map(len, texts))
        flat = [read for own in reads for read in own]
        task = await self._preparation.run(
            caller.tenant,
            size,
            reversible.mask_task,
            texts,
            flat,
            key=key,
            language=language,
            fill=fill,
            earlier=earlier,
        )
        (masked,) = await self._run(caller, [task], client_disconnected)
        await self._preparation.run(caller.tenant, size, _write, fields, masked)
        surrogates: Surrogates = masked.mapping
        return surrogates

    async def _run(self, caller: Caller, tasks: Sequence[Task], client_disconnected: asyncio.Event) -> list[Any]:
        return await self._releases.results(caller, Work(role=Role.SANITIZE, tasks=tasks), client_disconnected)

    def _tasks(self, tenant: str, terms: Terms, paths: Mapping[Turned, str]) -> list[DocumentTask]:
        """The dry runs of some texts, one for each. Raises as `SanitizeService.prepare`, with the path of the text, and
        InvalidInput for a type that is blocked and that no recogniser looks for."""
        if not paths:
            return []
        body = SanitizeRequest.model_construct(
            _fields_set={"documents", "mask", "dry_run"},
            documents=[TextDocument(text=each.text) for each in paths],
            **(dict(terms) | {"fill": Fill(), "dry_run": True}),
        )
        try:
            _, tasks = self._sanitize.documents(tenant, body)
        except InvalidInput as error:
            if place := _DOCUMENT.match(error.field or ""):
                error.field = list(paths.values())[int(place[1])]
            raise
        if not tasks[0].policy.looks_for(self._policies.proxied(terms.policy).block):
            raise InvalidInput("A type that the policy blocks has no recogniser now.", field="policy")
        return [
            replace(task, explain=0, policy=each.policy(task.policy)) for task, each in zip(tasks, paths, strict=True)
        ]


def _weighed(tasks: Iterable[DocumentTask]) -> list[Task]:
    return [Task(task, task.weight, stepwise=task.stepwise) for task in tasks]


def _write(fields: Sequence[Field], masked: MaskedConversation) -> None:
    at = 0
    for each in fields:
        each.write(masked.texts[at : at + len(each.texts)])
        at += len(each.texts)
    _ = masked.mapping.tree  # read from its bytes, which takes long for a large one


def _refuse_blocked(read: TextFinds, blocked: Sequence[str], path: str) -> None:
    for _, _, entity in read.regions:
        if entity in blocked:
            raise InvalidInput(f"The policy lets no {entity} pass to a language model.", field=path)

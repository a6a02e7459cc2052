"""Requests to language models whose texts are filled under a budget (`dp`, `metric_dp`).

Guarantee: that of `POST /sanitize` by the same policy, where each text of the request that is not blank is a document.
Two requests are neighbours if they differ in what one document of `POST /sanitize` may differ in, in one text. All else
is public: the members of the request, the number and the order of its texts, which of them are blank and which are JSON
documents, and of these the keys, the nesting, the types of values and the literals `true`, `false` and `null`. The
texts are charged and committed before anything leaves.

Which places of a text are masked depends on the questions of the turns before it, unless every word is. Where the
guarantee is one given the mask pattern and the kept text, these are the patterns and the kept texts of all turns:
requests are neighbours only if the changed text leaves the places of the others where they are.

What leaves is a function of what is public and of the filled texts. So a text is written anew whether or not its fill
equals it, and JSON is written into its public form (`core.text.reversible.json_text.public_form`). How a text was
spelled (its escapes, the white space between values of JSON) affects nothing.

A text that two places of a request have is filled and charged for each, unless the operator lets releases be reused
(docs/concepts/reuse.md), which makes the pattern of equal texts public.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from fastapi import Request

from core import spans
from core.errors import InvalidInput
from core.text.policy import PRICED_FILLS
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from service.config.settings import Settings
from service.http.auth import Caller
from service.preparation import Preparation
from service.proxy.outgoing import Field
from service.proxy.turns import Turned
from service.releases.pipeline import ReleasePipeline
from service.releases.request import Buffer, ReleasePart, ReleaseParts, ReleaseRequest
from service.sanitize.schemas import SanitizeRequest, Terms, TextDocument
from service.sanitize.service import SanitizeService

_ANSWER_WORK = 4  # the time to write and read a character of the filled texts, against one of plain JSON


@dataclass(frozen=True)
class Payer:
    """Who pays for a request: a tenant, or a subject of one in `subject` mode. `request` has the idempotency key."""

    request: Request
    caller: Caller
    subject: str | None


def is_priced(terms: Terms) -> bool:
    return terms.fill.mode in PRICED_FILLS


class PricedFills:
    """Fills the texts of requests."""

    def __init__(
        self, settings: Settings, *, sanitize: SanitizeService, releases: ReleasePipeline, preparation: Preparation
    ) -> None:
        self._settings = settings
        self._preparation = preparation
        self._sanitize = sanitize
        self._releases = releases

    @spans.step("fill a conversation")
    async def fill(
        self,
        payer: Payer,
        terms: Terms,
        fields: Sequence[Field],
        turned: Sequence[Sequence[Turned]],
        client_disconnected: asyncio.Event,
    ) -> dict[str, str]:
        """Fill the fields in place, charged as one release. `turned`: their texts. Returns the headers that say what
        was guaranteed.

        Raises InvalidInput for a text that cannot be filled, and as `ReleasePipeline.release`."""
        paths = [each.slot.path for each in fields for text in each.texts if text.strip()]
        texts = [text for own in turned for text in own if text.text.strip()]
        if not texts:
            raise InvalidInput("The request has no text to fill.")
        for each in fields:
            if not each.is_inspected and any(text.strip() for text in each.texts):
                raise InvalidInput("A text that the model has signed cannot be filled.", field=each.slot.path)
        release_request = await self._release_request(payer, terms, texts, paths)
        body, _ = await self._releases.body(payer.request, payer.caller, release_request, client_disconnected)
        size = _ANSWER_WORK * sum(map(len, body))
        whole = "all" in terms.techniques
        return await self._preparation.run(payer.caller.tenant, size, _written, fields, body, whole)

    async def _release_request(
        self, payer: Payer, terms: Terms, texts: Sequence[Turned], paths: Sequence[str]
    ) -> ReleaseRequest:
        most = self._settings.documents_max
        if len(texts) > most:
            raise InvalidInput(f"A fill with a price has at most {most} texts in a request.", field=paths[most])
        documents = [TextDocument(text=each.text, subject=payer.subject) for each in texts]
        body = SanitizeRequest(documents=documents, policy=terms.policy)
        try:
            made = await self._sanitize.release_request(payer.caller.tenant, body)
        except InvalidInput as error:
            _, _, place = (error.field or "").partition("documents.")
            number = place.partition(".")[0]
            error.field = paths[int(number)] if number.isdecimal() else "policy"
            raise
        tasks = made.tasks
        if "all" not in terms.techniques:
            pairs = [(task, task.payload, each) for task, each in zip(tasks, texts, strict=True)]
            tasks = [replace(task, payload=replace(own, policy=each.policy(own.policy))) for task, own, each in pairs]
        whole = replace(
            made,
            tasks=tasks,
            collect=lambda results: [result.text for result in results],
            render=lambda filled, common: {"data": [{"text": text} for text in filled], **common},
            answer_size=lambda filled: _ANSWER_WORK * sum(map(len, filled)),
            fingerprint=await self._fingerprint(payer, terms),
        )
        return replace(whole, parts=lambda: _parts(whole))

    async def _fingerprint(self, payer: Payer, terms: Terms) -> bytes:
        """What one idempotency key stands for: the body, and the headers that change what is filled and who pays."""
        body = await payer.request.body()
        digest = await self._preparation.run(payer.caller.tenant, len(body), lambda: hashlib.sha256(body).digest())
        return digest + orjson.dumps([terms.policy, payer.subject])


def _written(fields: Sequence[Field], body: Sequence[Buffer], whole: bool) -> dict[str, str]:
    """Write the texts of a release into the fields. Returns its headers. `whole`: every word was a masked place.

    A blank text has no place, so no draw fills it. Like any text without words it becomes empty if `whole`, and
    otherwise all of it is kept text."""
    answer = orjson.loads(b"".join(body))
    filled = iter(row["text"] for row in answer["data"])
    for each in fields:
        each.write([next(filled) if text.strip() else "" if whole else text for text in each.texts])
    return headers_of(answer)


def headers_of(answer: Mapping[str, Any]) -> dict[str, str]:
    """The headers for the blocks `privacy` and `budget` of a release."""
    privacy, remaining = answer["privacy"], answer["budget"]["remaining"]
    facts = [privacy["guarantee"], f"unit={privacy['unit']}"]
    if "epsilon_worst_case" in privacy:
        facts.append(f"epsilon-worst-case={privacy['epsilon_worst_case']}")
    if "repeats" in privacy:
        facts.append(f"repeats={privacy['repeats']}")
    return {
        "Privacy-Guarantee": "; ".join(facts),
        "Privacy-Epsilon": str(privacy["epsilon"]),
        "Privacy-Remaining": str(remaining["epsilon"]),
    }


def _parts(whole: ReleaseRequest) -> ReleaseParts:
    """The texts of a release, of which those of earlier requests need no second charge (`REUSE_RETENTION_S`)."""
    count = len(whole.tasks)
    facts = orjson.dumps(dict(whole.privacy))

    def charges(number: int) -> Sequence[Any]:
        return whole.charges[number::count]

    def only(numbers: Sequence[int]) -> ReleaseRequest:
        return replace(
            whole,
            charges=[charge for number in numbers for charge in charges(number)],
            tasks=[whole.tasks[number] for number in numbers],
            parts=None,
        )

    parts = [ReleasePart(charges(number), [facts, *_origin(task.payload)]) for number, task in enumerate(whole.tasks)]
    return ReleaseParts(parts, only, pack=str.encode, unpack=bytes.decode)


def _origin(task: DocumentTask) -> list[bytes]:
    """What the distribution of a filled text depends on, beside its price and the models."""
    how = [task.fill, task.mechanism, task.k, task.scope, repr(task.policy)]
    return [b"language-model", orjson.dumps(how), task.text.encode()]

"""Presidio's contracts on the gateway's recognisers: what is found in texts, and what replaces it.

Guarantee: none. `analyze` is a dry run of `POST /sanitize`, so what a recogniser finds is the same, and a recogniser
that fails is an error. Finds do not overlap, but for those of recognisers that come with the request.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson

from core.errors import InvalidInput, PolicyEnforced
from core.text.languages import EVERY_LANGUAGE_ENTITIES, LANGUAGES, check_language
from core.text.own_recognisers.definition import RecogniserLimits
from core.text.own_recognisers.recogniser import INSTRUCTIONS_MAX
from core.text.policy import ENTITIES, PRICED_FILLS, TAGGED_SCORE_MIN, Sanitised, supported
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.own_finder import DraftTask
from service.config.settings import Settings
from service.http.auth import Caller
from service.isolation import IN_LOOP_SIZE_MAX, Isolation
from service.preparation import Preparation
from service.presidio import replacing
from service.presidio.finds import (
    ALWAYS_RAISED,
    FIELD,
    AdHoc,
    Found,
    ad_hoc_of,
    allow_list_of,
    check_patterns,
    collected,
    without_allowed,
)
from service.presidio.replacing import ReplacedText, lists_of, places_of, replaced, without_conflicts
from service.presidio.schemas import AdHocRecogniser, AnalyzeRequest, AnonymizeRequest, DeanonymizeRequest
from service.releases.pipeline import ReleasePipeline
from service.releases.request import Work
from service.sanitize.policies import Policies
from service.sanitize.recognisers.store import TEST_CHARS_MAX
from service.sanitize.schemas import Fill, MaskBody, SanitizeRequest, Terms, TextDocument, Thresholds
from service.sanitize.service import SanitizeService
from service.workers import Workers

_SCORE_MIN = 1e-9  # of a find; Presidio's threshold 0 leaves out those with the score 0
_RESULT_WORK = 500  # the time to replace a place, in characters of plain text
_RESULT_CHARS = 130  # of a find or replacement in JSON
_PATTERN_WORK = 16  # the time to compile a character of a pattern, in characters of plain text
_INSTRUCTIONS_MAX = 10 * INSTRUCTIONS_MAX  # of a request: a worker compiles the patterns for each text
_EXPANSION_MAX = 4  # the characters of replacements, against those that a document may have
TAGGER = "tagger"


class PresidioService:
    """Answers requests of Presidio's clients."""

    def __init__(
        self,
        settings: Settings,
        *,
        policies: Policies,
        sanitize: SanitizeService,
        releases: ReleasePipeline,
        workers: Workers,
        preparation: Preparation,
        isolation: Isolation,
    ) -> None:
        self._settings = settings
        self._policies = policies
        self._sanitize = sanitize
        self._releases = releases
        self._workers = workers
        self._preparation = preparation
        self._isolation = isolation

    def entities(self, language: str | None) -> list[str]:
        """The types that are found reliably in a language, or in any. Raises InvalidInput, WorkerCold."""
        if language not in (None, *LANGUAGES):
            raise InvalidInput(f"The language is one of: {', '.join(LANGUAGES)}.", field="language")
        names = supported(self._workers.tagger_types)
        return [name for name in names if language in (None, LANGUAGES[0]) or name in EVERY_LANGUAGE_ENTITIES]

    def recognisers(self, language: str | None) -> list[str]:
        """The names of recognisers: one for each type that has patterns, and the tagger."""
        found = self.entities(language)
        tagged = [TAGGER] if self._workers.tagger_types else []
        return [name.lower() for name in found if ENTITIES[name].module] + tagged

    async def analyzed(
        self, caller: Caller, body: AnalyzeRequest, client_disconnected: asyncio.Event
    ) -> list[list[Found]]:
        """What is found in each text, in order of position.

        Raises InvalidInput for a member that the gateway cannot honour; PolicyEnforced for what would change an
        enforced policy; what the engine raises."""
        self._check(body)
        texts = body.texts
        tenant = caller.tenant
        size = sum(map(len, texts))
        limits = RecogniserLimits()
        allowed = allow_list_of(body, limits)
        if allowed.patterns:
            await self._isolation.run(
                tenant, size, check_patterns, allowed, limits, field="allow_list", in_loop_size_max=0
            )
        own = [] if not body.ad_hoc_recognizers else await self._own(tenant, body.ad_hoc_recognizers, limits)
        own = [each for each in own if not body.entities or each.definition.entity in body.entities]
        terms = self._terms(tenant, body, [each.definition.entity for each in own])
        if terms is not None and terms.fill.mode in PRICED_FILLS:
            raise InvalidInput(
                "The policy fills with a price, so no finds are shown: what is masked depends on private text. "
                "Use POST /sanitize, or name `entities` where the policy is not enforced."
            )
        read = [number for number, text in enumerate(texts) if text.strip()]
        if len(read) * sum(each.definition.size for each in own) > limits.terms_chars_max or (
            len(read) * sum(each.instructions for each in own) > _INSTRUCTIONS_MAX
        ):
            raise InvalidInput("So many terms and patterns are too many for so many texts.", field=FIELD)
        documents = [] if terms is None else await self._preparation.run(tenant, size, self._tasks, tenant, terms, body)
        drafts = [_draft(texts[number], each) for each in own for number in read]
        found: list[list[Found]] = [[] for _ in texts]
        if documents or drafts:
            work = Work(role=Role.SANITIZE, tasks=[*documents, *drafts])
            results = await self._releases.results(caller, work, client_disconnected)
            explained = bool(body.return_decision_process)
            count = sum(len(each.spans) for each in results if isinstance(each, Sanitised))
            if count > self._settings.places_per_request_max:
                raise InvalidInput(f"A call has at most {self._settings.places_per_request_max} finds.", field="text")
            found = await self._preparation.run(
                tenant, size + _RESULT_WORK * count, collected, texts, read, results, own, explained=explained
            )
            if allowed:
                found = await self._isolation.run(
                    tenant,
                    _RESULT_WORK * count,
                    without_allowed,
                    texts,
                    found,
                    allowed,
                    limits,
                    field="allow_list",
                    in_loop_size_max=0 if allowed.patterns else IN_LOOP_SIZE_MAX,
                )
        return found

    async def _own(self, tenant: str, recognisers: Sequence[AdHocRecogniser], limits: RecogniserLimits) -> list[AdHoc]:
        """What the recognisers of a request search. Raises InvalidInput, NotStarted."""
        compiles = any(each.patterns for each in recognisers)
        return await self._isolation.run(
            tenant,
            _definition_size(recognisers),
            ad_hoc_of,
            recognisers,
            limits,
            field=FIELD,
            in_loop_size_max=0 if compiles else IN_LOOP_SIZE_MAX,
        )

    def _check(self, body: AnalyzeRequest) -> None:
        """Refuse what exceeds a limit, and what would change the finds and cannot be honoured. Raises InvalidInput."""
        if body.text == "":
            raise InvalidInput("The text is empty.", field="text")
        if len(body.texts) > self._settings.documents_max:
            raise InvalidInput(f"At most {self._settings.documents_max} texts a call.", field="text")
        chars_max = self._settings.document_chars_max
        if body.ad_hoc_recognizers:
            chars_max = min(chars_max, TEST_CHARS_MAX)
        if any(len(text) > chars_max for text in body.texts):
            raise InvalidInput(f"At most {chars_max} characters a text.", field="text")
        if body.context:
            raise InvalidInput("Context words are read in the text alone.", field="context")
        most = self._settings.recognisers_per_request_max
        if len(body.ad_hoc_recognizers or ()) > most:
            raise InvalidInput(f"At most {most} recognisers a call.", field=FIELD)
        try:
            check_language(body.language, techniques=("entity",), allow_list="")
        except InvalidInput as error:
            error.field = "language"
            raise

    def _terms(self, tenant: str, body: AnalyzeRequest, own_types: Sequence[str]) -> Terms | None:
        """The mask of a request: that of the tenant's policy, if the request names no types and no threshold. None if
        it names only types of its own recognisers. Raises InvalidInput, PolicyEnforced."""
        if self._policies.enforced(tenant):
            if body.entities or body.score_threshold is not None or body.ad_hoc_recognizers or body.allow_list:
                raise PolicyEnforced
            return self._sanitize.applied(Terms(), tenant)
        if not body.entities and body.score_threshold is None:
            terms = self._sanitize.applied(Terms(), tenant)
            if terms.policy is not None:
                return terms
        known = supported(self._workers.tagger_types)
        named = [name for name in dict.fromkeys(body.entities or known) if name in known]
        if body.entities and not set(body.entities) <= {*known, *own_types}:
            raise InvalidInput("A type has no recogniser in this gateway; GET /supportedentities.", field="entities")
        if not named:
            return None
        threshold = body.score_threshold
        thresholds = None if threshold is None else {name: _threshold(name, threshold) for name in named}
        mask = MaskBody(
            entities=named,
            language=body.language,
            thresholds=None if thresholds is None else Thresholds.model_validate(thresholds),
        )
        return self._sanitize.applied(Terms(mask=mask), tenant)

    def _tasks(self, tenant: str, terms: Terms, body: AnalyzeRequest) -> list[Task]:
        """The dry runs of the texts that hold something. Raises as `SanitizeService.prepare`."""
        documents = [TextDocument(text=text) for text in body.texts if text.strip()]
        if not documents:
            return []
        request = SanitizeRequest.model_construct(
            _fields_set={"documents", "mask", "dry_run"},
            documents=documents,
            **(dict(terms) | {"fill": Fill(), "dry_run": True}),
        )
        _, tasks = self._sanitize.prepare(tenant, request)
        return [replace(task, payload=replace(task.payload, explain=0)) for task in tasks]

    async def anonymized(self, tenant: str, body: AnonymizeRequest) -> list[ReplacedText]:
        """The texts with their finds replaced. Raises InvalidInput; PolicyEnforced for a tenant whose policy says what
        is replaced, and how."""
        if self._policies.enforced(tenant):
            raise PolicyEnforced

        def operate(entity: str, found: str) -> tuple[str, str]:
            operator = replacing.anonymizer_of(body.anonymizers, entity)
            return replacing.replacement(operator, entity, found), operator.type

        def one(text: str, values: Sequence[Any], field: str, chars_max: int) -> ReplacedText:
            places = without_conflicts(text, places_of(values, field=field, scored=True))
            return replaced(text, places, operate, field=field, chars_max=chars_max)

        return await self._each(tenant, body.text, body.analyzer_results, one, field="analyzer_results")

    async def deanonymized(self, tenant: str, body: DeanonymizeRequest) -> list[ReplacedText]:
        """The texts with what was encrypted in them. Raises InvalidInput."""

        def operate(entity: str, found: str) -> tuple[str, str]:
            operator = replacing.deanonymizer_of(body.deanonymizers, entity)
            return replacing.original(operator, found), operator.type

        def one(text: str, values: Sequence[Any], field: str, chars_max: int) -> ReplacedText:
            places = places_of(values, field=field, scored=False)
            return replaced(text, places, operate, field=field, chars_max=chars_max)

        return await self._each(tenant, body.text, body.anonymizer_results, one, field="anonymizer_results")

    async def _each(
        self,
        tenant: str,
        text: str | list[str],
        values: Sequence[Any],
        one: Callable[[str, Sequence[Any], str, int], ReplacedText],
        *,
        field: str,
    ) -> list[ReplacedText]:
        """`one` for each text with its places, their field and the characters that replacements may have.

        Raises InvalidInput for what exceeds a limit."""
        lists = list(lists_of(text, values, field=field))
        if len(lists) > self._settings.documents_max:
            raise InvalidInput(f"At most {self._settings.documents_max} texts a call.", field="text")
        if any(len(each) > self._settings.document_chars_max for each, _, _ in lists):
            raise InvalidInput(f"At most {self._settings.document_chars_max} characters a text.", field="text")
        count = sum(len(own) for _, own, _ in lists)
        if count > self._settings.places_per_request_max:
            raise InvalidInput(f"At most {self._settings.places_per_request_max} places a call.", field=field)
        size = sum(len(each) for each, _, _ in lists) + _RESULT_WORK * count

        def work() -> list[ReplacedText]:
            chars_left = _EXPANSION_MAX * self._settings.document_chars_max
            done = []
            for each in lists:
                done.append(one(*each, chars_left))
                chars_left -= sum(len(item["text"]) for item in done[-1].items)
            return done

        return await self._preparation.run(tenant, size, work)

    async def encoded(self, tenant: str, content: Any, *, count: int) -> bytes:
        """An answer as JSON. `count`: of its finds or replacements."""
        return await self._preparation.run(tenant, _RESULT_CHARS * count, orjson.dumps, content)


def _definition_size(recognisers: Sequence[AdHocRecogniser]) -> int:
    """The work to compile the patterns and lists of recognisers."""
    patterns = [each.regex for own in recognisers for each in own.patterns or ()]
    terms = [term for own in recognisers for term in own.deny_list or ()]
    return _PATTERN_WORK * sum(map(len, patterns)) + sum(map(len, terms))


def _threshold(name: str, threshold: float) -> float:
    """The nearest threshold that a type can have: a tagger reports nothing below its least score."""
    return max(threshold, TAGGED_SCORE_MIN if ENTITIES[name].needs_tagger else _SCORE_MIN)


def _draft(text: str, own: AdHoc) -> Task:
    task = DraftTask(text, own.packed, ALWAYS_RAISED, own.instructions)
    return Task(task, task.weight)

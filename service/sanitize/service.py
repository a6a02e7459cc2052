"""Sanitising, from a body to its price and its release request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from core.errors import GatewayError, InvalidInput
from core.text.policy import DP, Sanitised
from core.text.spans import Spans
from gpu_workers.engine.protocol import Task
from service.config.settings import Settings
from service.preparation import Preparation
from service.releases.request import Price, ReleaseRequest
from service.sanitize.fills import infill_facts, role_of, tuned_model
from service.sanitize.policies import Policies
from service.sanitize.pricing import price, tasks_of
from service.sanitize.schemas import SanitizeRequest, Terms, TextDocument
from service.sanitize.tuned_models import TunedModels
from service.workers import Workers

_SPAN_CHARS = 70  # of a span in JSON
_SPANS_AT_ONCE = 1_024


class SanitizeService:
    """Applies policies, prices bodies of `POST /sanitize` and makes release requests of them."""

    body = SanitizeRequest

    def __init__(
        self,
        settings: Settings,
        *,
        policies: Policies,
        models: TunedModels,
        workers: Workers,
        preparation: Preparation,
        surrogate_key: Callable[[str], bytes],
    ) -> None:
        """`surrogate_key`: tenant -> the key of its surrogates."""
        self._settings = settings
        self._policies = policies
        self._models = models
        self._workers = workers
        self._preparation = preparation
        self._surrogate_key = surrogate_key

    async def price(self, tenant: str, body: SanitizeRequest) -> Price:
        """What `body` costs. Raises InvalidInput, also for a fill that costs nothing; PolicyEnforced, WorkerCold."""
        cost = self._price(self._policies.applied(body, tenant))
        if not cost.charges:
            raise InvalidInput("This fill costs nothing.", field="fill.mode")
        return cost

    async def release_request(self, tenant: str, body: SanitizeRequest) -> ReleaseRequest:
        """The release that `body` describes. Raises as `price` and `prepare`."""
        applied = self._policies.applied(body, tenant)
        size = sum(len(document.text) for document in applied.documents)
        cost, tasks = await self._preparation.run(tenant, size, self.prepare, tenant, applied)
        places_max = self._settings.places_per_request_max

        def render(results: list[Sanitised], common: dict[str, Any]) -> dict[str, Any]:
            if sum(len(result.spans) for result in results) > places_max:
                raise InvalidInput(f"a call has at most {places_max} masked places", field="documents")
            rows = enumerate(zip(applied.documents, results, strict=True))
            return {
                "data": [row(index, document, result, applied) for index, (document, result) in rows],
                **({} if applied.policy is None else {"policy": applied.policy}),
                **common,
                "usage": {"documents": len(results), **counts(results, applied)},
            }

        return ReleaseRequest(
            charges=cost.charges,
            role=role_of(applied.fill.mode),
            tasks=tasks,
            render=render,
            answer_size=lambda results: answer_size(results, applied),
            privacy=cost.facts,
        )

    def applied(self, terms: Terms, tenant: str) -> Terms:
        """Terms with the policy that applies to this tenant. Raises InvalidInput, PolicyEnforced."""
        return self._policies.applied(terms, tenant)

    def prepare(self, tenant: str, body: SanitizeRequest) -> tuple[Price, list[Task]]:
        """Price and tasks of a body whose policy has been applied.

        Raises InvalidInput as `price` and `tasks_of`; WorkerCold.
        """
        cost = self._price(body)
        tasks = tasks_of(
            body,
            self._settings,
            cost,
            allow_lists=self._policies.allow_lists(tenant),
            tagger_types=self._workers.tagger_types,
            model=tuned_model(self._models, tenant, mode=body.fill.mode, name=body.fill.model),
            surrogate_key=self._surrogate_key(tenant),
        )
        return cost, [Task(task, task.weight, stepwise=task.stepwise) for task in tasks]

    def _price(self, body: SanitizeRequest) -> Price:
        return price(body, self._settings, infill_facts(self._workers, body.fill.mode))


def row(index: int, document: TextDocument, result: Sanitised, terms: Terms) -> dict[str, Any]:
    """A sanitised document as an answer shows it."""
    shown: dict[str, Any] = {"index": index}
    if document.id is not None:
        shown["id"] = document.id
    shown["text"] = result.text
    if terms.return_spans:
        shown["spans"] = _encoded(result.spans)
    return shown | counts([result], terms)


def _encoded(spans: Spans) -> orjson.Fragment:
    """The spans in JSON, made some at a time: all of them as objects would take several times the memory."""
    pieces = (
        orjson.dumps([span._asdict() for span in spans[start : start + _SPANS_AT_ONCE]])[1:-1]
        for start in range(0, len(spans), _SPANS_AT_ONCE)
    )
    return orjson.Fragment(b"[" + b",".join(pieces) + b"]")


def answer_size(results: Sequence[Sanitised | GatewayError], terms: Terms) -> int:
    """About how many characters the rows of an answer have."""
    span_chars = _SPAN_CHARS if terms.return_spans else 0
    return sum(len(result.text) + span_chars * len(result.spans) for result in results if isinstance(result, Sanitised))


def counts(results: Sequence[Sanitised], terms: Terms) -> dict[str, int]:
    """The numbers of words and of masked words. Omitted for `dp`: the count depends on private text."""
    if terms.fill.mode == DP:
        return {}
    return {
        "masked_tokens": sum(result.masked_tokens for result in results),
        "tokens": sum(result.tokens for result in results),
    }

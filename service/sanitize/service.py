"""Sanitising, from a body to its price and its release request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.errors import InvalidInput
from core.text.policy import DP, Sanitised
from gpu_workers.engine.protocol import Task
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from service.config.settings import Settings
from service.preparation import Preparation
from service.releases.request import Price, ReleaseRequest
from service.sanitize.fills import infill_facts, role_of, tuned_model
from service.sanitize.policies import Policies
from service.sanitize.pricing import price, tasks_of
from service.sanitize.schemas import SanitizeRequest, Terms, TextDocument
from service.sanitize.tuned_models import TunedModels
from service.workers import Workers


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
    ) -> None:
        self._settings = settings
        self._policies = policies
        self._models = models
        self._workers = workers
        self._preparation = preparation

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

        def render(results: list[Sanitised], common: dict[str, Any]) -> dict[str, Any]:
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
            tasks=[Task(task, task.weight, stepwise=task.stepwise) for task in tasks],
            render=render,
            privacy=cost.facts,
        )

    def applied(self, terms: Terms, tenant: str) -> Terms:
        """Terms with the policy that applies to this tenant. Raises InvalidInput, PolicyEnforced."""
        return self._policies.applied(terms, tenant)

    def prepare(self, tenant: str, body: SanitizeRequest) -> tuple[Price, list[DocumentTask]]:
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
        )
        return cost, tasks

    def _price(self, body: SanitizeRequest) -> Price:
        return price(body, self._settings, infill_facts(self._workers, body.fill.mode))


def row(index: int, document: TextDocument, result: Sanitised, terms: Terms) -> dict[str, Any]:
    """A sanitised document as an answer shows it."""
    shown: dict[str, Any] = {"index": index}
    if document.id is not None:
        shown["id"] = document.id
    shown["text"] = result.text
    if terms.return_spans:
        shown["spans"] = [
            {"start": span.start, "end": span.end, "type": span.type, "technique": span.technique}
            for span in result.spans
        ]
    return shown | counts([result], terms)


def counts(results: Sequence[Sanitised], terms: Terms) -> dict[str, int]:
    """The numbers of words and of masked words. Omitted for `dp`: the count depends on private text."""
    if terms.fill.mode == DP:
        return {}
    return {
        "masked_tokens": sum(result.masked_tokens for result in results),
        "tokens": sum(result.tokens for result in results),
    }

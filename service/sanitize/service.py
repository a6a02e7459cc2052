"""Sanitising, from a body to its price and its release request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.errors import InvalidInput, PolicyEnforced
from core.text.policy import Sanitised
from gpu_workers.engine.protocol import Task
from service.config.settings import Settings
from service.preparation import Preparation
from service.releases.request import Price, ReleaseRequest
from service.sanitize.fills import infill_facts, role_of, tuned_model
from service.sanitize.formats import keeps
from service.sanitize.policies import Policies
from service.sanitize.pricing import price, tasks_of
from service.sanitize.recognisers.store import Recognisers
from service.sanitize.rows import answer_size, counts, language_refused, row
from service.sanitize.schemas import SanitizeRequest, Terms
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
        recognisers: Recognisers,
        workers: Workers,
        preparation: Preparation,
        surrogate_key: Callable[[str], bytes],
    ) -> None:
        """`surrogate_key`: tenant -> the key of its surrogates."""
        self._settings = settings
        self._policies = policies
        self._models = models
        self._recognisers = recognisers
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
        size = sum(document.preparation_size for document in applied.documents)
        cost, tasks = await self._preparation.run(tenant, size, self.prepare, tenant, applied)
        places_max = self._settings.places_per_request_max

        def render(results: list[Sanitised], common: dict[str, Any]) -> dict[str, Any]:
            if sum(len(result.spans) for result in results) > places_max:
                raise InvalidInput(f"a call has at most {places_max} masked places", field="documents")
            for index, result in enumerate(results):
                if result.refused:
                    raise language_refused(field=f"documents.{index}.text")
            rows = enumerate(zip(applied.documents, results, strict=True))
            return {
                "data": [row(index, document, result, applied) for index, (document, result) in rows],
                **({} if applied.policy is None else {"policy": applied.policy}),
                **({"dry_run": True} if applied.dry_run else {}),
                **common,
                "usage": {"documents": len(results), **counts(results, applied)},
            }

        return ReleaseRequest(
            charges=cost.charges,
            role=role_of(applied.fill.mode, dry_run=applied.dry_run),
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

        Raises InvalidInput as `price` and `tasks_of`; PolicyEnforced for options that keep values; WorkerCold,
        RecogniserBroken.
        """
        if self._policies.enforced(tenant) and any(keeps(document.format_options) for document in body.documents):
            raise PolicyEnforced
        cost = self._price(body)
        tasks = tasks_of(
            body,
            self._settings,
            cost,
            allow_lists=self._policies.allow_lists(tenant),
            tagger_types=self._workers.tagger_types,
            model=tuned_model(self._models, tenant, mode=body.fill.mode, name=body.fill.model),
            own=self._recognisers.of_request(tenant, policy=body.policy, names=body.mask.recognisers or ()),
            surrogate_key=self._surrogate_key(tenant),
        )
        return cost, [Task(task, task.weight, stepwise=task.stepwise) for task in tasks]

    def _price(self, body: SanitizeRequest) -> Price:
        return price(body, self._settings, infill_facts(self._workers, body.fill.mode))

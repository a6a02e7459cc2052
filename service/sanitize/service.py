"""Sanitising, from a body to its price and its release request."""

from collections.abc import Callable, Sequence
from typing import Any

from core import spans
from core.errors import InvalidInput, PolicyEnforced
from core.files.disk import FileVersion
from core.text.formats.builder import TEXT, check_format_fill
from core.text.formats.form import Form
from core.text.policy import AUTO, PER_TENANT, SURROGATE, Sanitised
from core.text.reversible.mapping import MaskedConversation
from core.text.surrogates.draw import new_key
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.sanitize_tasks import DocumentTask
from service.config.settings import Settings
from service.isolation import Isolation
from service.preparation import Preparation
from service.releases.request import Price, ReleaseRequest
from service.restore.tokens import RestoreTokens
from service.sanitize import reversible
from service.sanitize.fills import REVERSIBLE, TunedModels, infill_facts, role_of, tuned_model
from service.sanitize.formats import form_of, keeps
from service.sanitize.policies import Policies
from service.sanitize.pricing import price, tasks_of
from service.sanitize.recognisers.store import RecogniserStore
from service.sanitize.reversible import read_of
from service.sanitize.rows import answer_size, counts, language_refused, reversible_row, row
from service.sanitize.schemas import Fill, SanitizeRequest, Terms
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
        recognisers: RecogniserStore,
        workers: Workers,
        preparation: Preparation,
        isolation: Isolation,
        surrogate_key: Callable[[str], bytes],
        tokens: RestoreTokens,
    ) -> None:
        """`surrogate_key`: tenant -> the key of its surrogates."""
        self._settings = settings
        self._policies = policies
        self._models = models
        self._recognisers = recognisers
        self._workers = workers
        self._preparation = preparation
        self._isolation = isolation
        self._surrogate_key = surrogate_key
        self._tokens = tokens

    async def price(self, tenant: str, body: SanitizeRequest) -> Price:
        """What `body` costs. Raises InvalidInput, also for a fill that costs nothing; PolicyEnforced, WorkerCold."""
        cost = self._price(self._policies.applied(body, tenant))
        if not cost.charges:
            raise InvalidInput("This fill costs nothing.", field="fill.mode")
        return cost

    @spans.step("validate and price")
    async def release_request(self, tenant: str, body: SanitizeRequest) -> ReleaseRequest:
        """The release that `body` describes. Raises as `price` and `prepare`."""
        applied = self._policies.applied(body, tenant)
        if applied.reversible:
            return await self._reversible(tenant, applied)
        size = sum(document.preparation_size for document in applied.documents)
        model = await self.model_of(tenant, applied)
        forms = await self.forms_of(tenant, applied)
        cost, tasks = await self._preparation.run(tenant, size, self.prepare, tenant, applied, model, forms)

        def render(results: list[Sanitised], common: dict[str, Any]) -> dict[str, Any]:
            self._check_results(results)
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

    async def _reversible(self, tenant: str, body: SanitizeRequest) -> ReleaseRequest:
        """The release of a dry run, whose finds are then masked with surrogates that a token restores.

        Raises InvalidInput for what cannot be restored, PolicyEnforced for a fill that another one would replace."""
        if body.dry_run or body.fill.mode not in reversible.FILLS:
            raise InvalidInput(
                f"Reversible are the fills {', '.join(reversible.FILLS)}, without a dry run.", field="reversible"
            )
        if body.fill.mode != SURROGATE and self._policies.enforced(tenant):
            raise PolicyEnforced
        for index, document in enumerate(body.documents):
            if document.format != TEXT:
                raise InvalidInput("Reversible are documents of the format `text`.", field=f"documents.{index}.format")
        found = body.model_copy(update={"fill": Fill(), "dry_run": True})
        size = sum(document.preparation_size for document in body.documents)
        cost, tasks = await self._preparation.run(tenant, size, self.prepare, tenant, found)
        key = self._surrogate_key(tenant) if body.fill.consistency == PER_TENANT else new_key()
        language = None if body.mask.language == AUTO else body.mask.language
        texts = [document.text for document in body.documents]

        def follow(results: list[Sanitised]) -> ReleaseRequest:
            self._check_results(results)
            reads = [read_of(result) for result in results]
            own = language or reversible.main_language(texts, reads)

            def render(masked: list[MaskedConversation], common: dict[str, Any]) -> dict[str, Any]:
                ((own, places, mapping),) = masked
                token, ends_at = self._tokens.seal(tenant, mapping.content)
                rows = zip(body.documents, results, own, places, strict=True)
                return {
                    "data": [
                        reversible_row(index, document, result, text, filled if body.return_spans else None)
                        for index, (document, result, text, filled) in enumerate(rows)
                    ],
                    **({} if body.policy is None else {"policy": body.policy}),
                    "restore_token": token,
                    "restore_until": ends_at,
                    **common,
                    "usage": {"documents": len(results), **counts(results, found)},
                }

            return ReleaseRequest(
                charges=(),
                role=Role.SANITIZE,
                tasks=[reversible.mask_task(texts, reads, key=key, language=own, fill=body.fill.mode)],
                render=render,
                answer_size=lambda _: size,
                privacy={} if cost.charges else {"note": REVERSIBLE},
            )

        return ReleaseRequest(
            charges=(),
            role=role_of(body.fill.mode, dry_run=True),
            tasks=tasks,
            render=lambda _, common: common,
            answer_size=lambda _: size,
            follow=follow,
        )

    def applied(self, terms: Terms, tenant: str) -> Terms:
        """Terms with the policy that applies to this tenant. Raises InvalidInput, PolicyEnforced."""
        return self._policies.applied(terms, tenant)

    async def model_of(self, tenant: str, terms: Terms) -> FileVersion | None:
        """The tenant's fine-tuned model that the fill names; None where it names none.

        Raises InvalidInput as `tuned_model`; BlobMissing, BlobCorrupt, StoreUnavailable: nothing is charged then.
        """
        return await tuned_model(self._models, tenant, mode=terms.fill.mode, name=terms.fill.model)

    async def forms_of(self, tenant: str, body: SanitizeRequest) -> list[Form | None]:
        """The forms of the documents of a body whose policy has been applied.

        Raises InvalidInput as `price` and `form_of`; NotStarted.
        """
        self._price(body)  # what its parameters rule out is not read
        if any(document.format != TEXT for document in body.documents):
            check_format_fill(body.fill.mode)
        return [
            await form_of(
                self._isolation,
                tenant,
                document.text,
                document.format,
                document.format_options,
                self._settings,
                field=f"documents.{index}",
            )
            for index, document in enumerate(body.documents)
        ]

    def prepare(
        self,
        tenant: str,
        body: SanitizeRequest,
        model: FileVersion | None = None,
        forms: Sequence[Form | None] = (),
    ) -> tuple[Price, list[Task]]:
        """Price and tasks of a body whose policy has been applied. Raises as `documents`."""
        cost, tasks = self.documents(tenant, body, model, forms)
        return cost, [Task(task, task.weight, stepwise=task.stepwise) for task in tasks]

    def documents(
        self,
        tenant: str,
        body: SanitizeRequest,
        model: FileVersion | None = None,
        forms: Sequence[Form | None] = (),
    ) -> tuple[Price, list[DocumentTask]]:
        """As `prepare`, without the weights, for which a text is read. `model`: that of `model_of`. `forms`: those of
        `forms_of`, unless all documents are plain text.

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
            model=model,
            own=self._recognisers.of_request(tenant, policy=body.policy, names=body.mask.recognisers or ()),
            surrogate_key=self._surrogate_key(tenant),
            forms=forms,
        )
        return cost, tasks

    def _check_results(self, results: list[Sanitised]) -> None:
        """Raise InvalidInput for too many places, and for a language that the mask refuses."""
        places_max = self._settings.places_per_request_max
        if sum(len(result.spans) for result in results) > places_max:
            raise InvalidInput(f"a call has at most {places_max} masked places", field="documents")
        for index, result in enumerate(results):
            if result.refused:
                raise language_refused(field=f"documents.{index}.text")

    def _price(self, body: SanitizeRequest) -> Price:
        return price(body, self._settings, infill_facts(self._workers, body.fill.mode))

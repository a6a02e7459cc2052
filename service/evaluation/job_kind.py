"""The job that measures mechanisms and policies on the caller's own texts, and the bodies of `POST /jobs/evaluation`.

Guarantee: none. Its report is computed from private texts, for who controls them. Nothing is released to the ledger's
accounts, and nothing leaves the machine.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import Field, model_validator

from core.accounting.events import Adjacency
from core.errors import InvalidInput
from gpu_workers.bulk.releasers import SanitizedRows
from gpu_workers.engine.protocol import Role
from gpu_workers.evaluation.spec import NAME_CHARS_MAX, TEXTS_MAX, EmbeddingMethod, EvaluationSpec, SanitizingMethod
from gpu_workers.handlers.options import files_of
from gpu_workers.models.sources import TAGGER_OFF
from service.bulk.releasers import BulkDocuments, BulkEndpoint, BulkSanitized, BulkTexts, Prepared
from service.capability import Capability
from service.config.data_dir import NAME
from service.config.settings import Settings
from service.config.worker_options import handler_factory
from service.domains.store import DomainStore
from service.http.strict import AtMost, Strict
from service.jobs.kind import JobKind, JobPrice, Outputs
from service.parts import Parts
from service.sanitize.service import SanitizeService
from service.sentdp.service import SentDPService
from service.vectors.service import VectorService

METHODS_MAX, EPSILONS_MAX, REPETITIONS_MAX = 8, 12, 20
# finds the attributes in the originals: the mask of the profile that finds the most
_FINDER = {"name": "finder", "endpoint": "sanitize", "body": {"mask": {"profile": "anonymise"}}}
EPSILONS = (0.5, 1.0, 2.0, 3.0, 6.0, 10.0, 25.0)


class MethodBody(Strict):
    """What to compare: a body of an endpoint, without documents and, of an embedding, without epsilon."""

    name: str = Field(min_length=1, max_length=64, description="How the report calls it.")
    endpoint: Literal["embed/sentdp", "embed/vector", "sanitize"]
    body: dict[str, Any] = Field(default_factory=dict)


class EvaluationFields(Strict):
    name: str = Field(pattern=rf"^{NAME}$", description="A label of the job.")
    methods: Annotated[list[MethodBody], AtMost(METHODS_MAX)] | None = Field(
        None,
        min_length=1,
        description="Mechanisms and policies to compare. Default: `sentence_codes`, `codebook`, and the profiles "
        "`default` and `anonymise`.",
    )
    epsilons: Annotated[list[Annotated[float, Field(gt=0)]], AtMost(EPSILONS_MAX)] = Field(
        default_factory=lambda: list(EPSILONS), min_length=1, description="Of the embeddings, in ascending order."
    )
    repetitions: int = Field(5, ge=2, le=REPETITIONS_MAX, description="Draws and splits of each measurement.")
    tolerance: float = Field(0.05, gt=0, lt=1, description="The share of the utility without noise that may be lost.")
    releases: int = Field(1, ge=1, le=10_000, description="How many releases of one unit you plan, for the bounds.")

    @model_validator(mode="after")
    def _checked(self) -> "EvaluationFields":
        names = [method.name for method in self.methods or ()]
        if len({*names}) < len(names):
            raise ValueError("each of the methods has a name of its own")
        if sorted({*self.epsilons}) != self.epsilons:
            raise ValueError("epsilons ascend")
        return self


class EvaluatedText(Strict):
    """One of the caller's texts. Either all have a label, or none; persons likewise."""

    text: str = Field(min_length=1)
    label: str | None = Field(None, min_length=1, max_length=NAME_CHARS_MAX, description="What a classifier learns.")
    person: str | None = Field(None, min_length=1, max_length=NAME_CHARS_MAX, description="Whose text it is.")


class EvaluationRequest(EvaluationFields):
    """Body of `POST /jobs/evaluation` as JSON."""

    texts: Annotated[list[EvaluatedText], AtMost(TEXTS_MAX)]


class EvaluationKind(JobKind):
    """Guarantee: none. It costs no budget."""

    name = "evaluation"
    summary = "Measure on your own texts what each epsilon keeps and what attacks find, and get a report"
    description = (
        "As `POST /jobs/domain`, with a tenant's key alone. The report is computed from the texts, without a guarantee "
        "and without a charge: it is for who controls them. Its files are `GET /jobs/{job_id}/report` and "
        "`GET /jobs/{job_id}/artifact`."
    )
    fields = EvaluationFields
    body = EvaluationRequest
    rows_description = 'Rows {"text"}, all or none with "label" and "person"; methods and epsilons as JSON.'
    entry_point = "gpu_workers.evaluation.job:run"
    artifacts = {".json": "application/json"}  # noqa: RUF012

    def __init__(self, settings: Settings, *, endpoints: Iterable[BulkEndpoint]) -> None:
        self._settings = settings
        self._endpoints = {each.name: each for each in endpoints}

    def rows(self, body: EvaluationRequest) -> Iterable[dict[str, Any]]:
        return (text.model_dump(exclude_none=True) for text in body.texts)

    def resolve(self, owner: str, fields: EvaluationFields) -> EvaluationFields:  # noqa: ARG002
        return fields if fields.methods else fields.model_copy(update={"methods": self._defaults()})

    def _defaults(self) -> list[MethodBody]:
        """What this gateway's encoder and tagger can do."""
        projection = {"projection": "pca"} if self._settings.encoder_path is None else {}
        found = [
            MethodBody(name="sentence_codes", endpoint="embed/sentdp", body={"mechanism": "sentence_codes"}),
            MethodBody(name="codebook", endpoint="embed/vector", body={"mechanism": "codebook", **projection}),
            MethodBody(name="default", endpoint="sanitize"),
            MethodBody(name="anonymise", endpoint="sanitize", body={"mask": {"profile": "anonymise"}}),
        ]
        return found if self._settings.tagger != TAGGER_OFF else found[:3]

    async def price(self, owner: str, fields: Mapping[str, Any]) -> JobPrice | None:
        """None. Raises InvalidInput, with the field of the method, for a body that its endpoint refuses."""
        await self._methods(owner, fields)
        return None

    async def specification(self, fields: Mapping[str, Any], outputs: Outputs) -> EvaluationSpec:
        settings = self._settings
        embeddings, policies = await self._methods(outputs.owner, fields)
        finder = (await self._methods(outputs.owner, {"methods": [_FINDER]}))[1][0] if policies else None
        roles = {Role.EMBED, *(policy.role for policy in (*policies, *([finder] if finder else ())))}
        factories = {
            role: handler_factory(role, settings, settings.devices[0], threads=settings.job_threads) for role in roles
        }
        return EvaluationSpec(
            name=fields["name"],
            embeddings=embeddings,
            policies=policies,
            finder=finder,
            epsilons=tuple(fields["epsilons"]),
            repetitions=fields["repetitions"],
            tolerance=fields["tolerance"],
            releases=fields["releases"],
            chars_max=settings.document_chars_max,
            target=outputs.artifact,
            report=outputs.report,
            handlers=factories,
        )

    async def _methods(
        self, owner: str, fields: Mapping[str, Any]
    ) -> tuple[tuple[EmbeddingMethod, ...], tuple[SanitizingMethod, ...]]:
        embeddings, policies = [], []
        for place, method in enumerate(fields["methods"]):
            if method["endpoint"] == "sanitize":
                found = await self._prepared(owner, method, place)
                if isinstance(found.releaser, SanitizedRows):
                    policies.append(SanitizingMethod(method["name"], method["body"], found.role, found.releaser.task))
                continue
            if "epsilon" in method["body"]:
                said = "an evaluation takes epsilons for all embeddings, beside the methods"
                raise InvalidInput(said, field=f"methods.{place}.body.epsilon")
            each = [await self._prepared(owner, method, place, epsilon=epsilon) for epsilon in fields["epsilons"]]
            own = method["name"], method["endpoint"], method["body"]
            embeddings.append(EmbeddingMethod(*own, tuple(map(_releaser, each)), tuple(map(_event, each))))
        return tuple(embeddings), tuple(policies)

    async def _prepared(self, owner: str, method: Mapping[str, Any], place: int, **terms: float) -> Prepared:
        try:
            found = await self._endpoints[method["endpoint"]].prepared(owner, {**method["body"], **terms})
        except RequestValidationError as error:
            raise RequestValidationError(
                [{**each, "loc": ("body", "methods", place, *each["loc"][1:])} for each in error.errors()]
            ) from None
        except InvalidInput as error:
            own = (error.field or "").removeprefix("body.")
            error.field = "epsilons" if own == "epsilon" else f"methods.{place}.body{own and '.' + own}"
            raise
        if self._settings.jobs_on == "ray" and any(files_of(getattr(found.releaser, "task", None))):
            said = "an evaluation on a cluster cannot use your own domains, models or recognisers"
            raise InvalidInput(said, field=f"methods.{place}.body")
        return found


def _releaser(found: Prepared) -> Any:
    return found.releaser


def _event(found: Prepared) -> Any:
    """The cost of replacing one unit: of a metric mechanism its worst case."""
    return next(each.event for each in found.price.charges if each.event.adjacency is Adjacency.REPLACE_ONE)


def _kind(parts: Parts) -> EvaluationKind:
    settings = parts[Settings]
    endpoints: list[BulkEndpoint] = [
        BulkDocuments(settings, parts[SentDPService], parts[DomainStore]),
        BulkTexts(parts[VectorService]),
        BulkSanitized(parts[SanitizeService]),
    ]
    return EvaluationKind(settings, endpoints=endpoints)


CAPABILITY = Capability(name="evaluation", job_kinds=lambda parts: [_kind(parts)])

"""The job that fine-tunes the language model that fills, on documents whose masked places it has filled itself."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from core.errors import InvalidInput, RecogniserBroken
from core.state.stored_files import MODELS
from core.text.policy import K_DEFAULT
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.models.sources import INFILL_OFF, is_url
from service.capability import Capability
from service.config.data_dir import NAME
from service.config.settings import ROWS_TAKEN, TEXTS_TAKEN, Settings
from service.files.stored import StoredFiles
from service.http.strict import AtMost, Strict, exactly_one_of
from service.jobs.kind import JobKind, Outputs
from service.parts import Parts
from service.sanitize.fills import check_options
from service.sanitize.policies import Policies
from service.sanitize.pricing import mask_policy
from service.sanitize.recognisers.store import RecogniserStore
from service.sanitize.schemas import MaskBody, Terms
from service.workers import Workers

ROUNDS_MAX = 3
STEPS_DEFAULT = 200
_STEPS_MAX = 2_000  # ten times the default; `rounds` repeats them


class TextRow(Strict):
    """One document, as exactly one of the two."""

    text: str | None = None
    sentences: Annotated[list[str], AtMost(TEXTS_TAKEN)] | None = None

    _one_form = exactly_one_of("text", "sentences")


class InfillFill(Strict):
    """How masked places are filled before the training."""

    mode: Literal["topk", "top1"] = "topk"
    k: int | None = Field(None, ge=1, description="Of `topk` alone: one of the model's k best words. Default: 10.")


class InfillFields(Strict):
    name: str = Field(pattern=rf"^{NAME}$")
    policy: str | None = Field(None, max_length=64, description="The operator's, by name, in place of a mask.")
    mask: MaskBody = MaskBody()
    fill: InfillFill = InfillFill()
    rounds: int = Field(1, ge=1, le=ROUNDS_MAX, description="How often the corpus is filled and trained on.")
    steps: int = Field(STEPS_DEFAULT, ge=1, description="Of training in a round.")


class InfillRequest(InfillFields):
    """Body of `POST /jobs/infill` as JSON."""

    documents: Annotated[list[TextRow], AtMost(ROWS_TAKEN)]


class InfillKind(JobKind):
    """Guarantee: none. It costs no budget."""

    name = "infill"
    summary = "Fine-tune the language model that fills on documents of one's own, masked and filled"
    description = "As `POST /jobs/domain`, with a tenant's key alone. Guarantee: none, and it costs no budget."
    fields = InfillFields
    body = InfillRequest
    rows_description = 'Rows {"text"} or {"sentences"}; mask and fill as JSON.'
    entry_point = "gpu_workers.infill.job:run"
    kept_limit = "infill_models_per_tenant_max"

    def __init__(
        self,
        settings: Settings,
        *,
        policies: Policies,
        recognisers: RecogniserStore,
        workers: Workers,
        files: StoredFiles,
    ) -> None:
        self._settings = settings
        self._files = files
        self._policies = policies
        self._recognisers = recognisers
        self._workers = workers

    def rows(self, body: InfillRequest) -> Iterable[dict[str, Any]]:
        return (row.model_dump(exclude_none=True) for row in body.documents)

    def resolve(self, owner: str, fields: InfillFields) -> InfillFields:
        """The fields with the mask that applies.

        Raises:
            InvalidInput: this gateway has no model to fine-tune, the mask leaves nothing, there is no such policy,
                entity or list, a number is beyond its limit.
            PolicyEnforced: the operator's policy for this tenant admits no other mask.
            WorkerCold: what is recognised is not known yet.
        """
        settings = self._settings
        if settings.infill == INFILL_OFF or is_url(settings.infill):
            raise InvalidInput("this gateway runs no language model, or one at an endpoint, which cannot be fine-tuned")
        named = {name: getattr(fields, name) for name in ("policy", "mask") if name in fields.model_fields_set}
        applied = self._policies.applied(Terms(**named), owner)
        mask = applied.mask
        own = self._recognisers.of_request(owner, policy=applied.policy, names=mask.recognisers or ())
        lists = self._policies.allow_lists(owner)
        if mask_policy(mask, allow_lists=lists, tagger_types=self._workers.tagger_types, own=own).whole:
            raise InvalidInput("where every word is masked there is nothing to learn from", field="mask.techniques")
        if fields.steps > _STEPS_MAX:
            raise InvalidInput(f"at most {_STEPS_MAX} steps", field="steps")
        check_options(mode=fields.fill.mode, k=fields.fill.k, scope=None, techniques=None, spans=False)
        return fields.model_copy(update={"mask": mask, "policy": applied.policy})

    async def kept(self, owner: str) -> set[str]:
        return await self._files.index.names(owner, MODELS)

    def installs(self, fields: Mapping[str, Any]) -> tuple[str, str]:
        return MODELS, fields["name"]

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> InfillSpec:
        settings = self._settings
        mask = MaskBody.model_validate(fields["mask"])
        try:
            own = self._recognisers.of_request(outputs.owner, policy=fields.get("policy"), names=mask.recognisers or ())
        except RecogniserBroken as error:
            raise InvalidInput(error.detail, field="mask.recognisers") from None
        return InfillSpec(
            name=fields["name"],
            targets=(str(outputs.artifact),),
            policy=mask.masking(own),
            fill=fields["fill"]["mode"],
            k=fields["fill"]["k"] or K_DEFAULT,
            rounds=fields["rounds"],
            steps=fields["steps"],
            device=settings.devices[0],
            threads=settings.job_threads,
            infill=settings.infill,
            tagger=settings.tagger,
            allow_lists_dir=str(settings.allow_lists_dir) if settings.allow_lists_dir else None,
            document_chars_max=settings.document_chars_max,
            places_max=settings.fill_slots_max,
            recognisers_loaded_max=WorkerOptions.recognisers_loaded_max,
        )


def _kind(parts: Parts) -> InfillKind:
    return InfillKind(
        parts[Settings],
        policies=parts[Policies],
        recognisers=parts[RecogniserStore],
        workers=parts[Workers],
        files=parts[StoredFiles],
    )


CAPABILITY = Capability(name="infill", job_kinds=lambda parts: [_kind(parts)])

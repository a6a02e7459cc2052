"""What a request for a job of each kind may say: its fields, its rows, and what is checked before a job is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from core.errors import InvalidInput
from core.ledger.records import Charge
from gpu_workers.handlers.options import INFILL_BUNDLED
from service.domains import NAME
from service.house import House
from service.model_fills import check_options
from service.sanitize_request import Mask, Terms, masking
from service.strict import Strict

UNSTATED = "not stated"
ROUNDS_MAX = 3
STEPS_DEFAULT = 200


@dataclass(frozen=True)
class Price:
    """What a job costs, and what the job is to know of it besides its fields."""

    charge: Charge
    fields: Mapping[str, Any]


async def _nothing(_here: House, _fields: Mapping[str, Any]) -> None:
    """The price of a job that charges nothing."""


@dataclass(frozen=True)
class Intake:
    """A kind of job. `fields` is what it is told besides its corpus: the body's other members, or the query of JSON
    lines; `body` adds the corpus. `rows` gives the corpus of a body; `settled` gives the fields as the job is to have
    them, or raises InvalidInput or PolicyEnforced, and is called in a thread; `price` tells from those fields what the
    job charges, if anything.
    """

    kind: str
    fields: type[Strict]
    body: type[Strict]
    rows: Callable[[Any], Iterable[dict[str, Any]]]
    rows_described: str
    settled: Callable[[House, str, Any], Any] = lambda _here, _owner, fields: fields
    price: Callable[[House, Mapping[str, Any]], Awaitable[Price | None]] = _nothing

    @property
    def openapi(self) -> dict[str, Any]:
        """The request's body, for the API page."""
        schema = self.body.model_json_schema(ref_template="#/$defs/{model}")
        lines = {"type": "string", "description": f"{self.rows_described} The other members go into the query."}
        return {
            "required": True,
            "content": {"application/json": {"schema": schema}, "application/x-ndjson": {"schema": lines}},
        }


class _OneForm(Strict):
    @model_validator(mode="after")
    def _one_form(self) -> _OneForm:
        forms = list(type(self).model_fields)
        if sum(getattr(self, form) is not None for form in forms) != 1:
            raise ValueError(f"give exactly one of {', '.join(forms)}")
        return self


class TextRow(_OneForm):
    """One document, as exactly one of the two."""

    text: str | None = None
    sentences: list[str] | None = None


class CorpusRow(_OneForm):
    """One public document, as exactly one of the three."""

    text: str | None = None
    sentences: list[str] | None = None
    embeddings: list[list[float]] | None = None


class DomainFields(Strict):
    name: str = Field(pattern=rf"^{NAME}$")
    source: str = Field(UNSTATED, min_length=1, max_length=500, description="Where the public documents are from.")
    licence: str = Field(UNSTATED, min_length=1, max_length=500)


class DomainRequest(DomainFields):
    """Body of `POST /jobs/domain` as JSON; `embeddings` holds one list of sentence embeddings a document."""

    documents: list[CorpusRow] | None = None
    embeddings: list[Annotated[list[list[float]], Field(min_length=1)]] | None = None

    @model_validator(mode="after")
    def _one_corpus(self) -> DomainRequest:
        if (self.documents is None) == (self.embeddings is None):
            raise ValueError("give exactly one of documents and embeddings")
        return self

    def rows(self) -> Iterable[dict[str, Any]]:
        yield from ({"embeddings": vectors} for vectors in self.embeddings or [])
        yield from (row.model_dump(exclude_none=True) for row in self.documents or [])


class InfillFill(Strict):
    """How masked places are filled before the training."""

    mode: Literal["topk", "top1"] = "topk"
    k: int | None = Field(None, ge=1, description="Of `topk` alone: one of the model's k best words. Default: 10.")


class InfillFields(Strict):
    name: str = Field(pattern=rf"^{NAME}$")
    policy: str | None = Field(None, max_length=64, description="The operator's, by name, in place of a mask.")
    mask: Mask = Mask()
    fill: InfillFill = InfillFill()
    rounds: int = Field(1, ge=1, le=ROUNDS_MAX, description="How often the corpus is filled and trained on.")
    steps: int = Field(STEPS_DEFAULT, ge=1, description="Of training in a round.")


class InfillRequest(InfillFields):
    """Body of `POST /jobs/infill` as JSON."""

    documents: list[TextRow]

    def rows(self) -> Iterable[dict[str, Any]]:
        return (row.model_dump(exclude_none=True) for row in self.documents)


def _settled_infill(here: House, tenant: str, fields: InfillFields) -> InfillFields:
    """The fields with the mask that applies.

    Raises:
        InvalidInput: this gateway has no model to fine-tune, the mask leaves nothing, there is no such policy, entity
            or list, a number is beyond the settings'.
        PolicyEnforced: the operator's policy for this tenant admits no other mask.
        WorkerCold: what is recognised here is not known yet.
    """
    settings = here.settings
    if settings.infill != INFILL_BUNDLED:
        raise InvalidInput("only the bundled language model can be fine-tuned, and this gateway runs another or none")
    named = {name: getattr(fields, name) for name in ("policy", "mask") if name in fields.model_fields_set}
    mask = here.policies.applied(Terms(**named), tenant).mask
    lists = here.policies.allow_lists(tenant)
    if masking(mask, allow_lists=lists, tagger_types=here.tagger_types).whole:
        raise InvalidInput("where every word is masked there is nothing to learn from", field="mask.techniques")
    if fields.steps > settings.infill_steps_max:
        raise InvalidInput(f"at most {settings.infill_steps_max} steps", field="steps")
    check_options(
        mode=fields.fill.mode, k=fields.fill.k, scope=None, techniques=None, spans=False, k_max=settings.fill_k_max
    )
    return fields.model_copy(update={"mask": mask})


DOMAIN = Intake(
    "domain",
    DomainFields,
    DomainRequest,
    rows=DomainRequest.rows,
    rows_described='Rows {"text"}, {"sentences"} or {"embeddings"}.',
)
INFILL = Intake(
    "infill",
    InfillFields,
    InfillRequest,
    rows=InfillRequest.rows,
    settled=_settled_infill,
    rows_described='Rows {"text"} or {"sentences"}; mask and fill as JSON.',
)

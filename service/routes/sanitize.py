"""`POST /sanitize`: mask, then fill. Guarantee: none, and the answer says so, but for the fills `metric_dp` and `dp`.

What was recognised does not reach the output; what was not recognised does. It costs nothing and is never stored.
`metric_dp` is metric DP for one masked word (`core.text.replace_words`): each document costs epsilon per unit of
distance on its `vector` account and the worst case on its `token` account. `dp` is pure DP for one masked place or for
the whole document (`core.text.fill_dp`): each document costs epsilon on its `token` account.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from core.errors import InvalidInput
from core.ledger.records import Charge
from core.mechanisms.fill_pricing import fill_event, fill_facts
from core.mechanisms.word_pricing import EXPONENTIAL, word_events, word_facts
from core.text.policy import (
    ALLOW_LIST_DEFAULT,
    DOCUMENT,
    DP,
    K_DEFAULT,
    SLOT,
    VOCABULARY_SIZE_DEFAULT,
    MaskPolicy,
    Sanitised,
    SanitizeTask,
    check_epsilon,
)
from gpu_workers.engine import Role, Task
from service.auth import Caller, caller
from service.body import JsonRoute, Strict
from service.house import House, house
from service.model_fills import (
    GUESSED,
    Facts,
    candidates_facts,
    check_options,
    check_places,
    infill_facts,
    weight_of,
)
from service.release import Release, release
from service.settings import Settings

router = APIRouter(route_class=JsonRoute, tags=["text"])

Technique = Literal["entity", "vocabulary", "allow_list", "all"]


class TextDocument(Strict):
    """One text to sanitise."""

    id: str | None = Field(None, max_length=128)
    text: str
    subject: str | None = Field(None, max_length=256)


class Mask(Strict):
    """What is masked. Techniques combine by union."""

    techniques: list[Technique] = Field(default=["entity"], min_length=1, max_length=4)
    entities: list[str] | None = Field(None, max_length=64, description="Default: the catalogue at GET /entities.")
    vocabulary_size: int = VOCABULARY_SIZE_DEFAULT
    allow_list: str = Field(ALLOW_LIST_DEFAULT, max_length=64)


class Fill(Strict):
    """What stands in the place of a mask."""

    mode: Literal["marker", "class_marker", "surrogate", "metric_dp", "top1", "topk", "dp"] = "class_marker"
    epsilon: float | None = Field(
        None, gt=0, description="Of each document: by `metric_dp` per unit of distance, by `dp` in total. No others."
    )
    mechanism: Literal["exponential", "laplace"] | None = Field(
        None, description="Of `metric_dp` alone. Default: exponential."
    )
    k: int | None = Field(None, ge=1, description="Of `topk` alone: one of the model's k best words. Default: 10.")
    scope: Literal["slot", "document"] | None = Field(
        None, description="Of `dp` alone: what epsilon protects. Default: slot."
    )

    @property
    def mechanism_or_default(self) -> str:
        return self.mechanism or EXPONENTIAL

    @property
    def scope_or_default(self) -> str:
        return self.scope or SLOT


class SanitizeRequest(Strict):
    """Body of `POST /sanitize`."""

    documents: list[TextDocument] = Field(min_length=1)
    mask: Mask = Mask()
    fill: Fill = Fill()
    return_spans: bool = False

    @property
    def techniques(self) -> tuple[str, ...]:
        """What is masked; by the scope `document` every word, whether or not the caller says so."""
        return ("all",) if self.fill.scope == DOCUMENT else tuple(self.mask.techniques)


@dataclass(frozen=True)
class Price:
    """What the documents cost; `facts` is what a privacy block says beside the first event, or beside `none`, which
    has no charges."""

    charges: Sequence[Charge] = ()
    facts: dict[str, Any] = field(default_factory=dict)


def price(body: SanitizeRequest, settings: Settings, infill: Facts | None) -> Price:
    """Looks at the parameters, never at a text. `infill`: as `infill_facts` gives it for the fill.

    Raises InvalidInput for an epsilon that is missing, out of range, or given for a fill that has none, for an option
    beside such a fill, and for too many documents."""
    if len(body.documents) > settings.documents_max:
        raise InvalidInput(f"at most {settings.documents_max} documents a call", field="documents")
    epsilon = body.fill.epsilon
    check_epsilon(body.fill.mode, epsilon)
    check_options(
        mode=body.fill.mode,
        k=body.fill.k,
        scope=body.fill.scope,
        techniques=body.mask.techniques if "mask" in body.model_fields_set else None,
        spans=body.return_spans,
        k_max=settings.fill_k_max,
    )
    if body.fill.mechanism is not None and (epsilon is None or body.fill.mode == DP):
        raise InvalidInput("only the fill `metric_dp` has a mechanism", field="fill.mechanism")
    if epsilon is None:
        return Price(facts={} if infill is None else {"note": GUESSED})
    if not settings.epsilon_min <= epsilon <= settings.epsilon_max:
        raise InvalidInput(
            f"epsilon must be between {settings.epsilon_min:g} and {settings.epsilon_max:g}", field="fill.epsilon"
        )
    whole = "all" in body.techniques
    if infill is not None:
        scope = body.fill.scope_or_default
        event = fill_event(epsilon, scope=scope)
        return Price(
            charges=[Charge(event, document.subject) for document in body.documents],
            facts=fill_facts(scope=scope, whole=whole) | candidates_facts(infill),
        )
    events = word_events(epsilon, mechanism=body.fill.mechanism_or_default)
    return Price(
        charges=[Charge(event, document.subject) for event in events for document in body.documents],
        facts=word_facts(events, whole=whole),
    )


def validate(
    body: SanitizeRequest, settings: Settings, cost: Price, *, allow_lists: Sequence[str]
) -> list[SanitizeTask]:
    """The documents as tasks. Raises InvalidInput for a limit, an empty text, an unknown entity or list."""
    if body.mask.allow_list not in allow_lists:
        raise InvalidInput("no such allow list; GET /models names them", field="mask.allow_list")
    policy = MaskPolicy(
        techniques=body.techniques,
        entities=tuple(body.mask.entities or ()),
        vocabulary_size=body.mask.vocabulary_size,
        allow_list=body.mask.allow_list,
    )
    epsilon_nano = cost.charges[0].event.epsilon_nano if cost.charges else None
    tasks = []
    for index, document in enumerate(body.documents):
        if not document.text.strip():
            raise InvalidInput("a document must hold something", field=f"documents.{index}.text")
        if len(document.text) > settings.document_chars_max:
            raise InvalidInput(
                f"at most {settings.document_chars_max} characters a document", field=f"documents.{index}.text"
            )
        tasks.append(
            SanitizeTask(
                document.text,
                policy,
                body.fill.mode,
                epsilon_nano,
                body.fill.mechanism_or_default,
                body.fill.k or K_DEFAULT,
                body.fill.scope_or_default,
            )
        )
    if body.fill.mode == DP:
        texts = [document.text for document in body.documents]
        check_places(texts, whole=policy.whole, places_max=settings.fill_slots_max)
    return tasks


@router.post("/sanitize", summary="Mask and fill text (a formal guarantee by metric_dp and dp alone)")
async def sanitize(
    body: SanitizeRequest,
    request: Request,
    who: Annotated[Caller, Depends(caller)],
    here: Annotated[House, Depends(house)],
) -> Response:
    cost = price(body, here.settings, infill_facts(here, body.fill.mode))
    tasks = validate(body, here.settings, cost, allow_lists=here.allow_lists.names)

    def render(results: list[Sanitised], common: dict[str, Any]) -> dict[str, Any]:
        rows = enumerate(zip(body.documents, results, strict=True))
        return {
            "data": [_row(index, document, result, body) for index, (document, result) in rows],
            **common,
            "usage": {"documents": len(results), **_counts(body, results)},
        }

    return await release(
        here,
        request,
        who,
        Release(
            charges=cost.charges,
            role=Role.SANITIZE,
            tasks=[Task(task, weight_of(task.text, task.fill)) for task in tasks],
            render=render,
            privacy=cost.facts,
        ),
    )


def _row(index: int, document: TextDocument, result: Sanitised, body: SanitizeRequest) -> dict[str, Any]:
    row: dict[str, Any] = {"index": index}
    if document.id is not None:
        row["id"] = document.id
    row["text"] = result.text
    if body.return_spans:
        row["spans"] = [
            {"start": span.start, "end": span.end, "type": span.type, "technique": span.technique}
            for span in result.spans
        ]
    return row | _counts(body, [result])


def _counts(body: SanitizeRequest, results: Sequence[Sanitised]) -> dict[str, int]:
    """How many words there are, and how many are masked: by `dp` that is not told, for it depends on what was there."""
    if body.fill.mode == DP:
        return {}
    return {
        "masked_tokens": sum(result.masked_tokens for result in results),
        "tokens": sum(result.tokens for result in results),
    }

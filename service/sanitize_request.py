"""What `/sanitize` is asked, what it costs, and the tasks that come of it.

Guarantee: none, and the answer says so, but for the fills `metric_dp` and `dp`.
What was recognised does not reach the output; what was not recognised does. It costs nothing and is never stored.
`metric_dp` is metric DP for one masked word (`core.text.replace_words`): each document costs epsilon per unit of
distance on its `vector` account and the worst case on its `token` account. `dp` is pure DP for one masked place or for
the whole document (`core.text.fill_dp`): each document costs epsilon on its `token` account.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from core.errors import InvalidInput
from core.files.file_version import FileVersion
from core.ledger.records import Charge
from core.mechanisms.words.fill_pricing import fill_event, fill_facts
from core.mechanisms.words.pricing import EXPONENTIAL, word_events, word_facts
from core.text.languages import ENGLISH, entities_of
from core.text.policy import (
    ALLOW_LIST_DEFAULT,
    DOCUMENT,
    DP,
    ENTITIES,
    K_DEFAULT,
    MODEL_FILLS,
    SLOT,
    VOCABULARY_SIZE_DEFAULT,
    MaskPolicy,
    SanitizeTask,
    check_epsilon,
)
from gpu_workers.facts import InfillFacts
from service.model_fills import (
    FINE_TUNED,
    GUESSED,
    candidates_facts,
    check_options,
    check_places,
)
from service.settings import Settings
from service.strict import Strict

Technique = Literal["entity", "vocabulary", "allow_list", "all"]


class TextDocument(Strict):
    """One text to sanitise."""

    id: str | None = Field(None, max_length=128)
    text: str
    subject: str | None = Field(None, max_length=256)


# one field an entity: a name that is none is then refused like any misspelt field, and not repeated
_threshold: Any = (Annotated[float, Field(gt=0, le=1)] | None, None)
Thresholds = create_model("Thresholds", __base__=Strict, **dict.fromkeys(ENTITIES, _threshold))


class Mask(Strict):
    """What is masked. Techniques combine by union. `language` is that of the documents."""

    techniques: list[Technique] = Field(default=["entity"], min_length=1, max_length=4)
    entities: list[str] | None = Field(None, max_length=64, description="Default: the catalogue at GET /entities.")
    vocabulary_size: int = VOCABULARY_SIZE_DEFAULT
    allow_list: str = Field(ALLOW_LIST_DEFAULT, max_length=64)
    thresholds: Thresholds | None = Field(None, description="Least score of a hit that is masked, by entity.")
    language: str = Field(ENGLISH, max_length=16)

    def masking(self) -> MaskPolicy:
        """Raises InvalidInput for what is not supported, or not in this language."""
        techniques = tuple(self.techniques)
        thresholds = {} if self.thresholds is None else self.thresholds.model_dump(exclude_none=True)
        if thresholds and "entity" not in techniques:
            raise InvalidInput("Thresholds need the technique `entity`.", field="mask.thresholds")
        return MaskPolicy(
            techniques=techniques,
            entities=entities_of(
                self.language,
                techniques=techniques,
                entities=tuple(self.entities or ()),
                allow_list=self.allow_list,
            ),
            vocabulary_size=self.vocabulary_size,
            allow_list=self.allow_list,
            thresholds=tuple(thresholds.items()),
        )


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
    model: str | None = Field(
        None, max_length=64, description="Of `top1` and `topk` alone: a model of yours that `POST /jobs/infill` made."
    )

    @property
    def mechanism_or_default(self) -> str:
        return self.mechanism or EXPONENTIAL

    @property
    def scope_or_default(self) -> str:
        return self.scope or SLOT


class Terms(Strict):
    """How documents are sanitised; the first line of `POST /sanitize/batch`. `policy` is the operator's, by name."""

    policy: str | None = Field(None, max_length=64)
    mask: Mask = Mask()
    fill: Fill = Fill()
    return_spans: bool = False

    @property
    def techniques(self) -> tuple[str, ...]:
        """What is masked; by the scope `document` every word, whether or not the caller says so."""
        return ("all",) if self.fill.scope == DOCUMENT else tuple(self.mask.techniques)


class SanitizeRequest(Terms):
    """Body of `POST /sanitize`."""

    documents: list[TextDocument] = Field(min_length=1)


@dataclass(frozen=True)
class Price:
    """What the documents cost; `facts` is what a privacy block says beside the first event, or beside `none`, which
    has no charges."""

    charges: Sequence[Charge] = ()
    facts: dict[str, Any] = field(default_factory=dict)


def price(body: SanitizeRequest, settings: Settings, infill: InfillFacts | None) -> Price:
    """Looks at the parameters, never at a text. `infill`: as `infill_facts` gives it for the fill, where it is known.

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
        note = FINE_TUNED if body.fill.model else GUESSED
        return Price(facts={"note": note} if body.fill.mode in MODEL_FILLS else {})
    if not settings.epsilon_min <= epsilon <= settings.epsilon_max:
        raise InvalidInput(
            f"epsilon must be between {settings.epsilon_min:g} and {settings.epsilon_max:g}", field="fill.epsilon"
        )
    whole = "all" in body.techniques
    if body.fill.mode == DP:
        scope = body.fill.scope_or_default
        event = fill_event(epsilon, scope=scope)
        return Price(
            charges=[Charge(event, document.subject) for document in body.documents],
            facts=fill_facts(scope=scope, whole=whole) | (candidates_facts(infill) if infill else {}),
        )
    events = word_events(epsilon, mechanism=body.fill.mechanism_or_default)
    return Price(
        charges=[Charge(event, document.subject) for event in events for document in body.documents],
        facts=word_facts(events, whole=whole),
    )


def masking(mask: Mask, *, allow_lists: Sequence[str], tagger_types: Sequence[str]) -> MaskPolicy:
    """What is masked. Raises InvalidInput for an unknown list, or an entity that nothing here recognises."""
    if mask.allow_list not in allow_lists:
        raise InvalidInput("no such allow list; GET /models names them", field="mask.allow_list")
    return mask.masking().completed(tagger_types)


def validate(
    body: SanitizeRequest,
    settings: Settings,
    cost: Price,
    *,
    allow_lists: Sequence[str],
    tagger_types: Sequence[str],
    model: FileVersion | None = None,
) -> list[SanitizeTask]:
    """The documents as tasks. Raises InvalidInput for a limit, an empty text, an unknown list, or an entity that
    nothing here recognises."""
    mask = body.mask.model_copy(update={"techniques": list(body.techniques)})
    policy = masking(mask, allow_lists=allow_lists, tagger_types=tagger_types)
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
                model,
            )
        )
    if body.fill.mode == DP:
        texts = [document.text for document in body.documents]
        check_places(texts, whole=policy.whole, places_max=settings.fill_slots_max)
    return tasks

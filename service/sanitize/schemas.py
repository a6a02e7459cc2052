"""Bodies of `POST /sanitize` and of its stream."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, create_model

from core.errors import InvalidInput
from core.mechanisms.words.fill_pricing import DOCUMENT, SLOT
from core.mechanisms.words.pricing import EXPONENTIAL
from core.text.languages import ENGLISH, entities_of
from core.text.policy import ALLOW_LIST_DEFAULT, ENTITIES, TECHNIQUES, VOCABULARY_SIZE_DEFAULT, MaskPolicy
from service.config.settings import DOCUMENTS_TAKEN
from service.http.choices import Consistency, FillMechanism, FillMode, FillScope, Technique
from service.http.strict import AtMost, Strict


class TextDocument(Strict):
    """One text to sanitise."""

    id: str | None = Field(None, max_length=128)
    text: str
    subject: str | None = Field(None, max_length=256)


# One field for each entity: an unknown name is refused like any extra field, and is not repeated.
_threshold: Any = (Annotated[float, Field(gt=0, le=1)] | None, None)
Thresholds = create_model("Thresholds", __base__=Strict, **dict.fromkeys(ENTITIES, _threshold))


class Mask(Strict):
    """What is masked. Techniques combine by union. `language`: the language of the documents."""

    techniques: Annotated[list[Technique], AtMost(len(TECHNIQUES))] = Field(default=["entity"], min_length=1)
    entities: Annotated[list[str], AtMost(len(ENTITIES))] | None = Field(
        None, description="Default: the catalogue at GET /entities."
    )
    profile: str | None = Field(
        None, max_length=32, description="A named set of entities, listed at GET /entities; `entities` adds to it."
    )
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
                profile=self.profile,
            ),
            vocabulary_size=self.vocabulary_size,
            allow_list=self.allow_list,
            thresholds=tuple(thresholds.items()),
        )


class Fill(Strict):
    """What replaces a masked place."""

    mode: FillMode = "class_marker"
    epsilon: float | None = Field(
        None, gt=0, description="Of each document: by `metric_dp` per unit of distance, by `dp` in total. No others."
    )
    mechanism: FillMechanism | None = Field(None, description="Of `metric_dp` alone. Default: exponential.")
    k: int | None = Field(None, ge=1, description="Of `topk` alone: one of the model's k best words. Default: 10.")
    scope: FillScope | None = Field(None, description="Of `dp` alone: what epsilon protects. Default: slot.")
    model: str | None = Field(
        None, max_length=64, description="Of `top1` and `topk` alone: a model of yours that `POST /jobs/infill` made."
    )
    consistency: Consistency | None = Field(
        None,
        description="Of `surrogate` alone: whether an original has the same surrogate within one document or in all "
        "documents of the tenant. Default: document.",
    )

    @property
    def mechanism_or_default(self) -> str:
        return self.mechanism or EXPONENTIAL

    @property
    def scope_or_default(self) -> str:
        return self.scope or SLOT


class Terms(Strict):
    """How documents are sanitised; the first line of `POST /sanitize/batch`. `policy`: the name of a policy."""

    policy: str | None = Field(None, max_length=64)
    mask: Mask = Mask()
    fill: Fill = Fill()
    return_spans: bool = False

    @property
    def techniques(self) -> tuple[str, ...]:
        """The masking techniques. The scope `document` masks every word in any case."""
        return ("all",) if self.fill.scope == DOCUMENT else tuple(self.mask.techniques)


class SanitizeRequest(Terms):
    """Body of `POST /sanitize`."""

    documents: Annotated[list[TextDocument], AtMost(DOCUMENTS_TAKEN)] = Field(min_length=1)

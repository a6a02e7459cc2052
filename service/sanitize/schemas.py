"""Bodies of `POST /sanitize` and of its stream."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from core.errors import InvalidInput
from core.mechanisms.words.fill_pricing import DOCUMENT, SLOT
from core.mechanisms.words.pricing import EXPONENTIAL
from core.text.languages import ENGLISH, entities_of
from core.text.own_recognisers.stored import OwnReference
from core.text.policy import ALLOW_LIST_DEFAULT, ENTITIES, TECHNIQUES, VOCABULARY_SIZE_DEFAULT, MaskPolicy
from service.config.settings import DOCUMENTS_TAKEN, RECOGNISERS_TAKEN
from service.http.choices import FillMechanism, FillMode, FillScope, Technique
from service.http.strict import AtMost, Strict


class TextDocument(Strict):
    """One text to sanitise."""

    id: str | None = Field(None, max_length=128)
    text: str
    subject: str | None = Field(None, max_length=256)


_TYPE = re.compile(r"[A-Z][A-Z0-9_]*")


class Thresholds(Strict):
    """Scores by entity. The types of own recognisers are known only once a request names them: see `Mask.masking`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[float, Field(gt=0, le=1)] | None]

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, data: Any) -> Any:
        if isinstance(data, dict) and len(data) > len(ENTITIES) + RECOGNISERS_TAKEN:
            raise PydanticCustomError("too_many_members", "the object has too many members")
        if isinstance(data, dict) and not all(isinstance(name, str) and _TYPE.fullmatch(name) for name in data):
            raise PydanticCustomError("unknown_entity", "a threshold is of an entity")  # its name is not repeated
        return data


class Mask(Strict):
    """What is masked. Techniques combine by union. `language`: the language of the documents."""

    techniques: Annotated[list[Technique], AtMost(len(TECHNIQUES))] = Field(default=["entity"], min_length=1)
    entities: Annotated[list[str], AtMost(64)] | None = Field(
        None, description="Default: the catalogue at GET /entities."
    )
    recognisers: Annotated[list[str], AtMost(RECOGNISERS_TAKEN)] | None = Field(
        None, description="Recognisers of yours, by name."
    )
    vocabulary_size: int = VOCABULARY_SIZE_DEFAULT
    allow_list: str = Field(ALLOW_LIST_DEFAULT, max_length=64)
    thresholds: Thresholds | None = Field(None, description="Least score of a hit that is masked, by entity.")
    language: str = Field(ENGLISH, max_length=16)

    def masking(self, own: Sequence[OwnReference] = ()) -> MaskPolicy:
        """The mask with the recognisers `own`: those that it names, and those of its policy. Raises InvalidInput for
        what is not supported, or not in this language."""
        techniques = tuple(self.techniques)
        own_types = {each.entity for each in own}
        named = tuple(self.entities or ())
        entities = tuple(name for name in named if name in ENTITIES or name not in own_types)
        thresholds = {} if self.thresholds is None else self.thresholds.model_dump(exclude_none=True)
        if thresholds and "entity" not in techniques:
            raise InvalidInput("Thresholds need the technique `entity`.", field="mask.thresholds")
        offered = entities_of(self.language, techniques=techniques, entities=entities, allow_list=self.allow_list)
        if entities or not named:  # a mask that names own types alone looks for nothing else
            entities = offered
        return MaskPolicy(
            techniques=techniques,
            entities=(*entities, *(name for name in named if name not in entities)),
            vocabulary_size=self.vocabulary_size,
            allow_list=self.allow_list,
            thresholds=tuple(thresholds.items()),
            own=tuple(own),
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

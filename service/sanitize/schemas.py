"""Bodies of `POST /sanitize` and of its stream."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from core.errors import InvalidInput
from core.mechanisms.words.pricing import DOCUMENT, EXPONENTIAL, MECHANISMS, SCOPES, SLOT
from core.text.formats.builder import TEXT
from core.text.languages import check_language
from core.text.own_recognisers.definition import OwnReference
from core.text.policy import (
    ALLOW_LIST_DEFAULT,
    AUTO,
    DP,
    ENTITIES,
    METRIC_DP,
    PATTERNS,
    TECHNIQUES,
    VOCABULARY_SIZE_DEFAULT,
    MaskPolicy,
    entities_of,
)
from service.config.settings import DOCUMENTS_TAKEN, RECOGNISERS_TAKEN
from service.http.choices import (
    Consistency,
    DocumentFormat,
    FillMechanism,
    FillMode,
    FillScope,
    Technique,
    UnknownLanguage,
)
from service.http.strict import AtMost, Strict
from service.sanitize.formats import FormatBody

_FORMAT_WORK = 32  # the time to read a character of a format, against one of plain text

FILL_DEFAULT = "class_marker"


class TextDocument(Strict):
    """One text to sanitise."""

    id: str | None = Field(None, max_length=128)
    text: str
    format: DocumentFormat = Field(
        TEXT, description="The form of the text, which is kept: values are sanitised, and everything else stays."
    )
    format_options: FormatBody | None = Field(None, description="Of a format other than `text`.")
    subject: str | None = Field(None, max_length=256)

    @property
    def preparation_size(self) -> int:
        """The work to prepare it, as a number of characters of plain text."""
        return len(self.text) * (1 if self.format == TEXT else _FORMAT_WORK)


_TYPE = re.compile(r"[A-Z][A-Z0-9_]*")


class Thresholds(Strict):
    """Scores by entity. Types of own recognisers are known only once a request names them: see `MaskBody.masking`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[float, Field(gt=0, le=1)]]

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, data: Any) -> Any:
        if isinstance(data, dict) and len(data) > len(ENTITIES) + RECOGNISERS_TAKEN:
            raise PydanticCustomError("too_many_members", "the object has too many members")
        if isinstance(data, dict) and not all(isinstance(name, str) and _TYPE.fullmatch(name) for name in data):
            raise PydanticCustomError("unknown_entity", "a threshold is of an entity")  # its name is not repeated
        return data


class MaskBody(Strict):
    """What is masked. Techniques combine by union."""

    techniques: Annotated[list[Technique], AtMost(len(TECHNIQUES))] = Field(default=["entity"], min_length=1)
    entities: Annotated[list[str], AtMost(len(ENTITIES))] | None = Field(
        None, description="Default, also for an empty list: the catalogue at GET /entities."
    )
    profile: str | None = Field(
        None, max_length=32, description="A named set of entities, listed at GET /entities; `entities` adds to it."
    )
    recognisers: Annotated[list[str], AtMost(RECOGNISERS_TAKEN)] | None = Field(
        None, description="Recognisers of yours, by name."
    )
    vocabulary_size: int = VOCABULARY_SIZE_DEFAULT
    allow_list: str = Field(ALLOW_LIST_DEFAULT, max_length=64)
    thresholds: Thresholds | None = Field(None, description="Least score of a hit that is masked, by entity.")
    language: str = Field(
        AUTO, max_length=16, description="The language of the documents, or `auto`: it is guessed for each document."
    )
    unknown_language: UnknownLanguage = Field(
        PATTERNS,
        description="What happens to a document that is guessed to be in no supported language. `patterns`: it is "
        "masked, and its row says that only forms and context words are reliable. `refuse`: the call is a 422.",
    )

    def masking(self, own: Sequence[OwnReference] = ()) -> MaskPolicy:
        """The mask with the recognisers `own`: those that it names, and those of its policy. Raises InvalidInput for
        what is not supported, or not in this language."""
        techniques = tuple(self.techniques)
        check_language(self.language, techniques=techniques, allow_list=self.allow_list)
        thresholds = {} if self.thresholds is None else self.thresholds.model_dump()
        if thresholds and "entity" not in techniques:
            raise InvalidInput("Thresholds need the technique `entity`.", field="mask.thresholds")
        return MaskPolicy(
            techniques=techniques,
            entities=entities_of(self.profile, tuple(self.entities or ()), techniques=techniques),
            vocabulary_size=self.vocabulary_size,
            allow_list=self.allow_list,
            thresholds=tuple(thresholds.items()),
            language=self.language,
            unknown_language=self.unknown_language,
            own=tuple(own),
        )


class Fill(Strict):
    """What replaces a masked place."""

    mode: FillMode = FILL_DEFAULT
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
    mask: MaskBody = MaskBody()
    fill: Fill = Fill()
    return_spans: bool = Field(
        False,
        description="Return each find: where it is in the output and in the text as sent, its type, technique, score "
        "and recogniser, and what was suppressed. With a fill that has a price: ranges of the output and types alone.",
    )
    dry_run: bool = Field(
        False, description="Return the finds and no text; nothing is filled or charged. Not for fills with a price."
    )

    @property
    def techniques(self) -> tuple[str, ...]:
        """The masking techniques. The scope `document` masks every word in any case."""
        return ("all",) if self.fill.scope == DOCUMENT else tuple(self.mask.techniques)


class SanitizeRequest(Terms):
    """Body of `POST /sanitize`."""

    documents: Annotated[list[TextDocument], AtMost(DOCUMENTS_TAKEN)] = Field(min_length=1)
    reversible: bool = Field(
        False,
        description="Return a `restore_token`, with which POST /restore puts the originals back. With the fills "
        "`surrogate`, `class_marker` and `marker`, which then numbers its markers.",
    )


def typical(epsilon: float) -> list[SanitizeRequest]:
    """One text by each fill that has a price, with the mask `all`."""
    fills = [Fill(mode=DP, epsilon=epsilon, scope=scope) for scope in SCOPES]
    fills += [Fill(mode=METRIC_DP, epsilon=epsilon, mechanism=name) for name in MECHANISMS]
    mask = MaskBody(techniques=["all"])
    return [SanitizeRequest(documents=[TextDocument(text="-")], mask=mask, fill=fill) for fill in fills]

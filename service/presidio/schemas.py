"""Bodies of the contracts of Presidio's analyzer and anonymizer services, version 2.2.366."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from core.text.policy import ENTITIES
from service.config.settings import DOCUMENTS_TAKEN, PATTERNS_TAKEN, RECOGNISERS_TAKEN, TERMS_TAKEN
from service.http.answers import doc
from service.http.strict import AtMost, Strict

RESULTS_TAKEN = 500_000
_TYPE_CHARS = 64
_TYPES_TAKEN = len(ENTITIES) + RECOGNISERS_TAKEN

TypeName = Annotated[str, Field(min_length=1, max_length=_TYPE_CHARS)]
Texts = Annotated[list[str], AtMost(DOCUMENTS_TAKEN)]


class AdHocPattern(Strict):
    name: str = Field("", max_length=256)
    regex: str
    score: float = Field(ge=0, le=1)


class AdHocRecogniser(Strict):
    """A recogniser of one request. `supported_language`, `version` and `country_code` change nothing."""

    name: str | None = Field(None, max_length=256)
    supported_entity: TypeName | None = None
    supported_entities: Annotated[list[TypeName], AtMost(1)] | None = None
    supported_language: str | None = Field(None, max_length=16)
    patterns: Annotated[list[AdHocPattern], AtMost(PATTERNS_TAKEN)] | None = None
    deny_list: Annotated[list[str], AtMost(TERMS_TAKEN)] | None = None
    deny_list_score: float = Field(1.0, ge=0, le=1)
    context: Annotated[list[str], AtMost(PATTERNS_TAKEN)] | None = None
    global_regex_flags: int | None = None
    version: str | None = Field(None, max_length=64)
    country_code: str | None = Field(None, max_length=16)

    @property
    def entity(self) -> str:
        return self.supported_entity or (self.supported_entities or [""])[0]


class AnalyzeRequest(Strict):
    """Body of `POST /analyze`. `correlation_id` and `trace` change nothing."""

    text: str | Texts
    language: str = Field(max_length=16, description="One of the languages of GET /entities, or `auto`.")
    entities: Annotated[list[TypeName], AtMost(_TYPES_TAKEN)] | None = Field(
        None, description="Default, also for an empty list: those of your policy, or of GET /supportedentities."
    )
    score_threshold: float | None = Field(
        None, ge=0, le=1, description="Default: the threshold of each type, as in GET /entities."
    )
    return_decision_process: bool | None = None
    ad_hoc_recognizers: Annotated[list[AdHocRecogniser], AtMost(RECOGNISERS_TAKEN)] | None = None
    context: Annotated[list[str], AtMost(PATTERNS_TAKEN)] | None = Field(
        None, description="Not supported: an error unless it is empty."
    )
    allow_list: Annotated[list[str], AtMost(TERMS_TAKEN)] | None = None
    allow_list_match: Literal["exact", "regex"] | None = None
    regex_flags: int | None = Field(None, description="Of an allow list that is matched as `regex`.")
    correlation_id: str | None = Field(None, max_length=256)
    trace: bool | None = None

    @property
    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class Anonymizer(Strict):
    """What replaces the finds of one type."""

    type: Literal["replace", "redact", "mask", "hash", "encrypt", "keep"]
    new_value: str | None = Field(None, max_length=1_000, description="Of `replace`. Default: the type, as `<PERSON>`.")
    masking_char: str | None = Field(None, max_length=1, description="Of `mask`.")
    chars_to_mask: int | None = Field(None, description="Of `mask`.")
    from_end: bool | None = Field(None, description="Of `mask`. Default: false.")
    hash_type: Literal["sha256", "sha512"] | None = Field(None, description="Of `hash`. Default: sha256.")
    salt: str | None = Field(
        None, max_length=1_000, description="Of `hash`: at least 16 bytes. Default: random for each find."
    )
    key: str | None = Field(None, max_length=64, description="Of `encrypt`: 16, 24 or 32 bytes.")

    @model_validator(mode="after")
    def _complete(self) -> Anonymizer:
        if self.type == "mask" and None in (self.masking_char, self.chars_to_mask):
            raise PydanticCustomError("mask_incomplete", "`mask` needs masking_char and chars_to_mask")
        if self.salt is not None and len(self.salt.encode()) < 16:
            raise PydanticCustomError("salt_too_short", "a salt has at least 16 bytes")
        if self.type == "encrypt":
            check_key(self.key)
        return self


class Deanonymizer(Strict):
    """What restores the places of one type."""

    type: Literal["decrypt", "deanonymize_keep"]
    key: str | None = Field(None, max_length=64, description="Of `decrypt`: that of `encrypt`.")

    @model_validator(mode="after")
    def _complete(self) -> Deanonymizer:
        if self.type == "decrypt":
            check_key(self.key)
        return self


def check_key(key: str | None) -> None:
    if key is None or len(key.encode()) not in (16, 24, 32):
        raise PydanticCustomError("wrong_key", "a key has 16, 24 or 32 bytes")


# (entity_type, start, end, score) of each find, as `service.presidio.replacing` reads them: models of so many would
# take the event loop too long
Places = Annotated[list[Any], AtMost(RESULTS_TAKEN)]


class AnonymizeRequest(Strict):
    """Body of `POST /anonymize`. A list of texts comes with a list of results for each."""

    text: str | Texts
    analyzer_results: Places = Field(description="Finds, as POST /analyze returns them.")
    anonymizers: Annotated[dict[TypeName, Anonymizer], AtMost(_TYPES_TAKEN)] | None = Field(
        None, description="By type, and `DEFAULT` for the others, which is `replace` unless it is named."
    )


class DeanonymizeRequest(Strict):
    """Body of `POST /deanonymize`. A list of texts comes with a list of results for each."""

    text: str | Texts
    anonymizer_results: Places = Field(description="Items, as POST /anonymize returns them.")
    deanonymizers: Annotated[dict[TypeName, Deanonymizer], AtMost(_TYPES_TAKEN)]


class AnalyzerFind(TypedDict):
    """A find, by the contract of Presidio's analyzer."""

    entity_type: Annotated[str, doc("The type of what was found.")]
    start: Annotated[int, doc("Its start, in code points.")]
    end: Annotated[int, doc("Its end, exclusive.")]
    score: Annotated[float, doc("Its score, in [0, 1].")]
    analysis_explanation: Annotated[dict[str, Any] | None, doc("How it was found, where asked for; else null.")]


class AnonymizedItem(TypedDict):
    """A place that was replaced."""

    start: Annotated[int, doc("Its start in the new text, in code points.")]
    end: Annotated[int, doc("Its end, exclusive.")]
    entity_type: Annotated[str, doc("The type of what was there.")]
    text: Annotated[str, doc("What is there now.")]
    operator: Annotated[str, doc("The operator that made it.")]
    score: Annotated[float | None, doc("The score of the find; null if the request gives none.")]


class AnonymizedText(TypedDict):
    """A text whose finds are replaced, by the contract of Presidio's anonymizer."""

    text: Annotated[str, doc("The new text.")]
    items: Annotated[list[AnonymizedItem], doc("The places, from the end of the text.")]

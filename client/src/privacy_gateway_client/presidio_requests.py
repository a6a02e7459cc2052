"""The models of requests by Presidio's contracts and of LiteLLM's guardrail; see `requests.py`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from privacy_gateway_client.requests import Body


class AdHocPattern(Body):
    name: str = ""
    regex: str = Field(repr=False)
    score: float


class AdHocRecogniser(Body):
    name: str | None = None
    supported_entity: str | None = None
    supported_entities: list[str] | None = None
    supported_language: str | None = None
    patterns: list[AdHocPattern] | None = Field(None, repr=False)
    deny_list: list[str] | None = Field(None, repr=False)
    deny_list_score: float = 1.0
    context: list[str] | None = None
    global_regex_flags: int | None = None
    version: str | None = None
    country_code: str | None = None


class AnalyzeRequest(Body):
    text: str | list[str] = Field(repr=False)
    language: str
    entities: list[str] | None = None
    score_threshold: float | None = None
    return_decision_process: bool | None = None
    ad_hoc_recognizers: list[AdHocRecogniser] | None = None
    context: list[str] | None = None
    allow_list: list[str] | None = Field(None, repr=False)
    allow_list_match: Literal["exact", "regex"] | None = None
    regex_flags: int | None = None
    correlation_id: str | None = None
    trace: bool | None = None


class Anonymizer(Body):
    type: Literal["replace", "redact", "mask", "hash", "encrypt", "keep"]
    new_value: str | None = Field(None, repr=False)
    masking_char: str | None = None
    chars_to_mask: int | None = None
    from_end: bool | None = None
    hash_type: Literal["sha256", "sha512"] | None = None
    salt: str | None = Field(None, repr=False)
    key: str | None = Field(None, repr=False)


class AnonymizeRequest(Body):
    text: str | list[str] = Field(repr=False)
    analyzer_results: list[Any] = Field(repr=False)
    anonymizers: dict[str, Anonymizer] | None = None


class Deanonymizer(Body):
    type: Literal["decrypt", "deanonymize_keep"]
    key: str | None = Field(None, repr=False)


class DeanonymizeRequest(Body):
    text: str | list[str] = Field(repr=False)
    anonymizer_results: list[Any] = Field(repr=False)
    deanonymizers: dict[str, Deanonymizer]


class GuardrailRequest(Body):
    input_type: Literal["request", "response"]
    litellm_call_id: str | None = None
    texts: list[str] | None = Field(None, repr=False)
    structured_messages: list[dict[str, Any]] | None = Field(None, repr=False)
    tools: list[dict[str, Any]] | None = Field(None, repr=False)
    tool_calls: list[dict[str, Any]] | None = Field(None, repr=False)
    images: list[str] | None = Field(None, repr=False)
    request_data: dict[str, Any] | None = Field(None, repr=False)
    additional_provider_specific_params: dict[str, Any] | None = None

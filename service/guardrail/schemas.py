"""The body that LiteLLM's guardrail `generic_guardrail_api` sends, as of LiteLLM 1.108."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from service.config.settings import TEXTS_TAKEN
from service.http.strict import AtMost, Strict

Objects = Annotated[list[dict[str, Any]], AtMost(TEXTS_TAKEN)]
Strings = Annotated[list[str], AtMost(TEXTS_TAKEN)]


class GuardrailRequest(Strict):
    """Texts of a request before it leaves, or of its answer. Members that are not named have no effect."""

    model_config = ConfigDict(extra="ignore")

    input_type: Literal["request", "response"]
    litellm_call_id: str | None = Field(None, min_length=1, max_length=256)
    texts: Strings | None = None
    structured_messages: Objects | None = Field(None, description="Messages in the format of OpenAI.")
    tools: Objects | None = None
    tool_calls: Objects | None = None
    images: Strings | None = None
    request_data: dict[str, Any] | None = Field(None, description="Which of LiteLLM's keys and users asks.")
    additional_provider_specific_params: dict[str, Any] | None = Field(
        None, description="`policy`, `conversation` and `tool_calls` are read."
    )


class GuardrailParameters(Strict):
    """What the configuration of the guardrail says. `conversation`: what its surrogates have in common, by default the
    first message of the user. `tool_calls`: what happens to an answer with a tool call whose arguments have surrogates,
    because LiteLLM takes no restored arguments."""

    model_config = ConfigDict(extra="ignore")

    policy: str | None = Field(None, max_length=64)
    conversation: str | None = Field(None, max_length=256)
    tool_calls: Literal["block", "pass"] = "block"

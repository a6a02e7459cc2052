"""Whole answers and errors of the three dialects, restored in place, and every string that the SDKs declare."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from restorer_kit import WORDS, WordRestorers
from sdk_samples_kit import CANARY, Samples

from service.proxy.endpoints import DIALECTS

CHAT, RESPONSES, MESSAGES = DIALECTS["/v1/chat/completions"], DIALECTS["/v1/responses"], DIALECTS["/v1/messages"]
ANSWERS = [(CHAT, ChatCompletion), (RESPONSES, Response), (MESSAGES, Message)]
EVENTS = [(CHAT, ChatCompletionChunk), (RESPONSES, ResponseStreamEvent), (MESSAGES, RawMessageStreamEvent)]
UNRESTORED = """
    id model system_fingerprint bytes data name call_id caller_id file_id file_ids container container_id key keys
    version size mode param categories namespace created_by fingerprint encrypted_content encrypted_index
    encrypted_stdout signature server_label server_url tunnel_id authorization headers allowed_tools tool_names
    allowed_domains approval_request_id previous_response_id comparison_response_id vector_store_ids skill_id
    tool_use_id tool_id tool_name toolset_name country timezone page_age retrieved_at inference_geo
    ToolChoiceAllowed.tools ModerationInputError.message ModerationOutputError.message ModerationInputError.code
    ModerationOutputError.code PendingSafetyCheck.code AcknowledgedSafetyCheck.code ImageGenerationCallError.code
    ComputerCallOutputAcknowledgedSafetyCheck.code ImageGenerationCallError.type ImageGenerationCall.result
    ContainerNetworkPolicyDomainSecret.domain ContainerNetworkPolicyDomainSecret.value"""
UNRESTORED_EVENTS = """
    item_id ResponseAudioDeltaEvent.delta ResponseErrorEvent.code partial_image_b64 background output_format quality
    ChoiceDeltaAudio.data ResponseImageGenCallPartialImageEvent.size SignatureDelta.signature"""
MEDIA = """
    ResponseInputImage ResponseInputFile ResponseInputImageContent ResponseInputFileContent OutputImage
    ResponseComputerToolCallOutputScreenshot ImageGenerationInputImageMask ToolImageGenerationInputImageMask
    InlineSkillSource"""


class Canaries:
    """Restores every canary, and holds nothing back."""

    def text(self) -> Canaries:
        return self

    json = text

    def feed(self, text: str) -> str:
        return CANARY.sub("restored", text)

    whole = whole_json = feed

    def end(self) -> str:
        return ""


def unrestored(samples: Samples, written: Any, allowed: str) -> set[str]:
    """The members of which a string is still in what was written, without media and those that are allowed."""
    left = {member for member in samples.left_in(json.dumps(written)) if member.split(".")[0] not in MEDIA.split()}
    names = set(allowed.split())
    return {member for member in left if member not in names and member.split(".")[1] not in names}


@pytest.mark.parametrize(("dialect", "kind"), ANSWERS)
def test_every_string_of_an_answer_is_restored_but_identifiers_and_media(dialect: Any, kind: type) -> None:
    samples = Samples()
    answers = samples.bodies(kind)
    for answer in answers:
        dialect.restore(answer, Canaries())
    assert len(samples.members) > 20
    assert not unrestored(samples, answers, UNRESTORED)


@pytest.mark.parametrize(("dialect", "kind"), EVENTS)
def test_every_string_of_an_event_is_restored_but_identifiers_and_media(dialect: Any, kind: Any) -> None:
    samples = Samples()
    written = [dialect.stream(Canaries()).event(event.get("type"), event) for event in samples.bodies(kind)]
    assert len(samples.members) > 20
    assert not unrestored(samples, written, UNRESTORED + UNRESTORED_EVENTS)


def chat(message: dict[str, Any], logprobs: Any = None) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}, "logprobs": logprobs}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def test_a_chat_answer() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "Anna", "arguments": '{"Anna":"[PERSON_1]"}'}}
    custom = {"id": "d", "type": "custom", "custom": {"name": "x", "input": "to Anna"}}
    message = {"content": "Dear Anna Muster,", "reasoning_content": "Anna?", "tool_calls": [call, custom]}
    token = {"token": "Anna", "logprob": -1.0, "bytes": None, "top_logprobs": []}
    answer = chat(message, {"content": [token], "refusal": None})

    CHAT.restore(answer, WordRestorers())

    restored = ChatCompletion.model_validate(answer).choices[0]
    assert restored.message.content == "Dear Maria Weber,"
    assert answer["choices"][0]["message"]["reasoning_content"] == "Maria?"
    assert json.loads(call["function"]["arguments"]) == {"Anna": WORDS["[PERSON_1]"]}
    assert call["function"]["name"] == "Anna"
    assert custom["custom"]["input"] == "to Maria"
    assert restored.logprobs is not None
    assert restored.logprobs.content is None


def test_log_probabilities_of_unchanged_texts_stay() -> None:
    token = {"token": "Hi", "logprob": -1.0, "bytes": None, "top_logprobs": []}
    answer = chat({"content": "Hi"}, {"content": [token], "refusal": None})
    part = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": [token]}
    response = {"output": [{"type": "message", "content": [part, {**part, "text": "Anna"}]}]}
    CHAT.restore(answer, WordRestorers())
    RESPONSES.restore(response, WordRestorers())
    assert answer["choices"][0]["logprobs"]["content"] == [token]
    assert [each["logprobs"] for each in response["output"][0]["content"]] == [[token], []]


def test_structured_content_stays_valid_json() -> None:
    text, expected = '{"to": "[PERSON_1]", "Anna": 1}', {"to": WORDS["[PERSON_1]"], "Anna": 1}
    answer = chat({"content": text})
    response = {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}
    message = {"content": [{"type": "text", "text": text}]}
    CHAT.restore(answer, WordRestorers(), structured=True)
    RESPONSES.restore(response, WordRestorers(), structured=True)
    MESSAGES.restore(message, WordRestorers(), structured=True)
    assert json.loads(answer["choices"][0]["message"]["content"]) == expected
    assert json.loads(response["output"][0]["content"][0]["text"]) == expected
    assert json.loads(message["content"][0]["text"]) == expected


def test_prose_where_json_was_asked_for_is_restored_as_text() -> None:
    answer = chat({"content": "Sorry, [PERSON_1] said no."})
    CHAT.restore(answer, WordRestorers(), structured=True)
    assert answer["choices"][0]["message"]["content"] == f"Sorry, {WORDS['[PERSON_1]']} said no."


def test_citations_move_with_the_text() -> None:
    text = "Anna wrote: Anna Muster (see Anna Muster) lives [PERSON_1]."
    places = ["Anna wrote", "Anna Muster (see", "(see Anna Muster)", "lives [PERSON_1].", "."]
    restored = [WordRestorers().whole(place) for place in places]
    marks = [(text.index(place), text.index(place) + len(place)) for place in places]
    citations = [
        {"type": "url_citation", "title": "Anna", "url": "u", "start_index": a, "end_index": b} for a, b in marks
    ]
    answer = chat(
        {"content": text, "annotations": [{"type": "url_citation", "url_citation": dict(c)} for c in citations]}
    )
    part = {"type": "output_text", "text": text, "annotations": citations}
    response = {"output": [{"type": "message", "content": [part]}]}

    CHAT.restore(answer, WordRestorers())
    RESPONSES.restore(response, WordRestorers())

    message = answer["choices"][0]["message"]
    moved = [annotation["url_citation"] for annotation in message["annotations"]]
    assert moved == citations
    assert {citation["title"] for citation in citations} == {"Maria"}
    assert [part["text"][citation["start_index"] : citation["end_index"]] for citation in citations] == restored


def test_a_responses_answer_and_its_echoes() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"to":"Anna"}'}
    answer = {
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Anna"}]},
            {"type": "message", "content": [{"type": "refusal", "refusal": "Anna"}]}, call,
        ],
        "instructions": [{"role": "user", "content": "Anna"}], "metadata": {"Anna": "Anna"}, "user": "pseudo-7",
        "tools": [{"type": "function", "description": "Anna", "parameters": {"enum": ["Anna"]}}],
        "error": {"message": "Anna"}, "incomplete_details": None,
    }  # fmt: skip
    RESPONSES.restore(answer, WordRestorers())

    assert json.dumps(answer).count('"Anna"') == 1  # the key of `metadata`
    assert answer["user"] == "maria@example.org"
    assert call["arguments"] == '{"to":"Maria"}'


def test_a_messages_answer() -> None:
    citation = {"type": "char_location", "cited_text": "Anna", "document_title": "Anna", "start_char_index": 0}
    answer = {
        "content": [
            {"type": "thinking", "thinking": "Anna", "signature": "Anna"},
            {"type": "text", "text": "Anna", "citations": [citation]},
            {"type": "tool_use", "name": "Anna", "input": {"Anna": ["Anna", {"a": "[PERSON_1]"}]}},
        ],
        "stop_sequence": "Anna",
    }
    MESSAGES.restore(answer, WordRestorers())

    thinking, text, use = answer["content"]
    assert (thinking["thinking"], thinking["signature"]) == ("Maria", "Anna")
    assert (text["text"], citation["cited_text"], citation["document_title"]) == ("Maria", "Maria", "Maria")
    assert use == {"type": "tool_use", "name": "Anna", "input": {"Anna": ["Maria", {"a": WORDS["[PERSON_1]"]}]}}
    assert answer["stop_sequence"] == "Maria"


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_errors_and_answers_of_any_shape(dialect: Any) -> None:
    body = {"error": {"message": "no Anna", "param": ["Anna"], "code": None}}
    dialect.restore_error(body, WordRestorers())
    assert body == {"error": {"message": "no Maria", "param": ["Maria"], "code": None}}
    deep: Any = "Anna"
    for _ in range(900):
        deep = [deep]
    for answer in (None, [], "Anna", 7, {"choices": {"message": 1}, "output": 3, "content": {}}, {"error": deep}):
        dialect.restore(answer, WordRestorers())
    for wrong in ({"choices": [1, {"message": {"content": 5, "tool_calls": 5, "annotations": [5]}}]}, {"output": [{}]}):
        dialect.restore(wrong, WordRestorers())

"""No text leaves in a place that nothing reads: an address, a sentence with a name and keys with an address are planted
in every value and every object of the requests that the types of the SDKs declare, one at a time."""

import itertools
import json
import re
from functools import cache
from typing import Any

import anthropic.types.beta.message_create_params
import anthropic.types.message_create_params
import openai.types.chat.completion_create_params
import openai.types.responses.response_create_params
import pytest
from planting_kit import ADDRESS, PLANTED, SENTENCE, Places, left
from sdk_samples_kit import literals, mask
from tiers import cells

from core.errors import InvalidInput
from core.text.reversible.mapping import is_key
from service.guardrail.service import Shown
from service.proxy.dialects.openai_chat import OTHERS
from service.proxy.dialects.public import FLAG, MODEL, is_word
from service.proxy.endpoints import DIALECTS
from service.proxy.slots import NameSlot, SlotKind

CHAT, RESPONSES, MESSAGES = DIALECTS["/v1/chat/completions"], DIALECTS["/v1/responses"], DIALECTS["/v1/messages"]
# Declared members that no value of the samples fits, because they are refused: what holds credentials, what calls
# other servers, and the lists of chosen tools, which the types declare as objects with any members.
REFUSED = {
    "chat": "ChatCompletionAllowedToolsParam.tools",
    "responses": """
        ContainerNetworkPolicyDomainSecretParam.domain Mcp.authorization Mcp.headers Mcp.server_url
        ToolMcp.authorization ToolMcp.headers ToolMcp.server_url ToolChoiceAllowedParam.tools""",
    "messages": "",
    "beta": "BetaRequestMCPServerURLDefinitionParam.url BetaRequestMCPServerURLDefinitionParam.authorization_token",
}
# Declared strings that must have a form which holds no text: words, identifiers of the upstream, hosts, what it signed.
FORMED = {
    "chat": "voice model id country timezone",
    "responses": """
        continuation_id container file_ids allowed_domains container_id type vector_store_ids model size tunnel_id
        fingerprint comparison_response_id mode encrypted_content id conversation previous_response_id version skill_id
        country timezone""",
    "messages": """
        encrypted_index encrypted_stdout encrypted_content id previous_message_id container inference_geo
        user_profile_id workspace_id data skill_id version signature country timezone allowed_domains
        blocked_domains""",
    "beta": """
        encrypted_index encrypted_stdout encrypted_content id previous_message_id container inference_geo
        user_profile_id workspace_id data skill_id version signature country timezone allowed_domains blocked_domains
        stop_reason model betas token fallback_credit_token""",
}
# Declared strings that have the form of a name: of tools, their servers, and attributes.
NAMED = {
    "chat": "name",
    "responses": "name namespace key server_label allowed_tools tool_names",
    "messages": "name tool_name toolset_name required",
    "beta": """
        name tool_name toolset_name server_name mcp_server_name required clear_tool_inputs exclude_tools
        allowed_tools""",
}
# What an upstream signed leaves as it was signed: what other texts hold is masked in it, and nothing else.
SIGNED = ("thinking(thinking)", "content(compaction)", "code(program)")
KINDS: dict[str, tuple[Any, Any]] = {
    "chat": (CHAT, openai.types.chat.completion_create_params.CompletionCreateParamsStreaming),
    "responses": (RESPONSES, openai.types.responses.response_create_params.ResponseCreateParamsStreaming),
    "messages": (MESSAGES, anthropic.types.message_create_params.MessageCreateParamsStreaming),
    "beta": (MESSAGES, anthropic.types.beta.message_create_params.MessageCreateParamsStreaming),
}


@cache
def places(name: str) -> Places:
    dialect, kind = KINDS[name]
    return Places(dialect.slots, kind)


@pytest.mark.parametrize("name", cells(KINDS))
def test_every_declared_member_is_masked_public_or_refused(name: str) -> None:
    """A member that a new version of an SDK declares is refused, and fails this test until a table has it."""
    found = places(name)
    as_they_are: set[str] = set()
    for body in found.copies():
        mask(KINDS[name][0].slots(body))
        as_they_are |= found.left_in(body)
    assert len(found.declared) > 50
    assert found.refused == set(REFUSED[name].split())
    assert {member.split(".")[1] for member in found.formed} == set(FORMED[name].split())
    assert {member.split(".")[1] for member in as_they_are} == set(NAMED[name].split())


@pytest.mark.parametrize("name", cells(KINDS))
def test_declared_content_has_a_type_that_is_known_and_paths_name_members_of_the_api_alone(name: str) -> None:
    """Media are images, sounds, files and documents by reference; every other declared type has a row of its own."""
    media = set()
    for body in places(name).bodies:
        for slot in KINDS[name][0].slots(body):
            assert re.fullmatch(r"[a-z_0-9.$A-Z]+", slot.path)
            assert "key" not in slot.path.split(".")
            assert "city" not in slot.path.split(".properties")
            if slot.kind is SlotKind.MEDIA and isinstance(slot.value, dict):
                media.add(slot.value.get("type", slot.key))

    assert media <= {
        *("image_url", "input_audio", "file", "audio"),
        *("input_image", "input_file", "computer_screenshot", "image", "input_image_mask", "base64", "source"),
        *("url", "container_upload"),
    }


@pytest.mark.parametrize("name", cells(KINDS))
def test_nothing_planted_in_a_declared_place_leaves(name: str) -> None:
    dialect, _ = KINDS[name]
    planted = list(places(name).planted())
    assert len(planted) > 1000
    assert not {place for place, body in planted if left(dialect.slots, body) and not place.endswith(SIGNED)}


@pytest.mark.parametrize("name", cells(KINDS))
def test_the_words_are_those_of_the_types(name: str) -> None:
    rest = {each for each in literals(KINDS[name][1]) if not is_word(each)}
    assert not {each for each in rest if not (MODEL.accepts(each) or FLAG.accepts(each))}


def chat(**members: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **members}


def tool(**schema: Any) -> dict[str, Any]:
    function = {"name": "f", "parameters": {"type": "object", **schema}}
    return chat(tools=[{"type": "function", "function": function}])


def message(**members: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "tool", "tool_call_id": "c1", "content": "Hi", **members}]}


def asked(*tools: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"model": "m", "input": "Hi", "tools": list(tools), **members}


def test_nothing_planted_in_a_member_of_another_vendor_leaves() -> None:
    texts = (*PLANTED, {"text": ADDRESS}, [{"title": ADDRESS, "text": SENTENCE}], [[SENTENCE]])
    for member, text in itertools.product((*OTHERS, "vendor", "n", "model_name"), texts):
        for dialect, body in ((CHAT, chat()), (RESPONSES, asked())):
            assert not left(dialect.slots, body | {member: json.loads(json.dumps(text))})
        assert not left(CHAT.slots, message(**{member: text}))


def test_nothing_planted_in_a_name_a_setting_or_a_schema_leaves() -> None:
    for dialect, body in [
        (CHAT, tool(pattern=f"^{ADDRESS}$")), (CHAT, tool(format=ADDRESS)),
        (CHAT, tool(properties={ADDRESS: {"type": "string"}}, required=[ADDRESS])), (CHAT, tool(required=[SENTENCE])),
        (CHAT, tool(**{"x-note": {ADDRESS: [SENTENCE]}})), (CHAT, tool(**{f"x-{ADDRESS}": 1})),
        (CHAT, tool(**{"$ref": f"#/$defs/{ADDRESS}", "$defs": {ADDRESS: {}}})), (CHAT, tool(items=ADDRESS)),
        (CHAT, chat(tools=[{"type": "function", "function": {"name": "f", "parameters": ADDRESS}}])),
        (CHAT, chat(logit_bias={ADDRESS: 1})), (CHAT, chat(metadata={ADDRESS: "a"})),
        (CHAT, chat(tools=[{"type": ADDRESS, "function": {"name": "f"}}])),
        (RESPONSES, asked({"type": "mcp", "server_label": "a", "server_url": f"https://a.example/?u={ADDRESS}"})),
        (RESPONSES, asked({"type": "web_search", "filters": {"allowed_domains": [ADDRESS]}})),
        (RESPONSES, asked(prompt={"id": "pmpt_0123456789", "variables": {ADDRESS: "a"}})),
        (MESSAGES, {"model": "m", "messages": [], "tools": [{"type": f"bash_{ADDRESS}", "name": "bash"}]}),
    ]:  # fmt: skip
        assert not left(dialect.slots, body)


def test_keys_of_arguments_are_masked() -> None:
    address = json.dumps({ADDRESS: 1})
    for arguments in (address, address.replace("@", "\\u0040"), json.dumps({"a": [{SENTENCE: None}]})):
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        assert not left(CHAT.slots, {"messages": [{"role": "assistant", "tool_calls": [call]}]})
        use = {"type": "tool_use", "id": "t1", "name": "f", "input": json.loads(arguments)}
        assert not left(MESSAGES.slots, {"messages": [{"role": "assistant", "content": [use]}]})


def test_a_key_that_is_masked_keeps_its_value_and_stays_apart_from_others() -> None:
    body = {"metadata": {"a": "1", "Maria K.": "2", "Jonas K.": "3"}}
    slots = list(CHAT.slots(body))
    assert [slot.path for slot in slots] == ["metadata.0", "metadata.1", "metadata.1", "metadata.2", "metadata.2"]
    for slot in slots:
        slot.value = "Olga M." if isinstance(slot, NameSlot) else f"{slot.value}!"
    assert body == {"metadata": {"a": "1!", "Olga M.": "2!", "Olga M._": "3!"}}


def test_names_are_public_in_a_form_that_holds_no_sentence_and_no_number_of_a_person() -> None:
    names = ("get_weather", "mcp__server-1__search", "straße", "functions.f", "search_20250101", "$defs", "a/b")
    assert all(map(is_key, (*names, "mcp__0f6a5b7c-8c0e-4d1a-9b1e-0123456789ab__search", "50256")))
    others = ("Maria Keller", "maria@example.org", "DE89370400440532013000", "+49 170 1234567", "4111111111111111", "")
    assert not any(map(is_key, others))


def test_what_an_operator_lets_pass_leaves_as_it_is() -> None:
    servers = [{"type": "url", "name": "a", "url": "https://a.example", "authorization_token": "t"}]
    body = {"model": "m", "messages": [], "mcp_servers": servers, "vendor": {ADDRESS: 1}}
    unread = frozenset({"mcp_servers.url", "mcp_servers.authorization_token", "vendor"})
    assert list(MESSAGES.slots(body, unread)) == []
    for each in unread:
        with pytest.raises(InvalidInput, match=r"proxy\.unread") as refused:
            list(MESSAGES.slots(body, unread - {each}))
        assert refused.value.field == ("3" if each == "vendor" else each.replace(".", ".0."))


def test_nothing_planted_in_what_litellm_shows_leaves() -> None:
    for text in [ADDRESS, SENTENCE]:
        for members in [
            {"structured_messages": [{"role": "user", "content": "Hi", "vendor": None}]},
            {"structured_messages": [{"role": "tool", "tool_call_id": None, "content": "Hi"}]},
            {"structured_messages": [{"role": "assistant", "provider_specific_fields": {"a": [None]}}]},
            {
                "structured_messages": [
                    {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": None}]}
                ]
            },
            {"tools": [{"type": "function", "function": {"name": None}}]},
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"required": [None]}}}]},
            {"tool_calls": [{"id": None, "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": None, "arguments": "{}"}}]},
            {"texts": [None]},
        ]:
            body = json.loads(json.dumps(members).replace("null", json.dumps(text)))

            def slots(given: Any) -> Any:
                lists = (given.get(each, []) for each in ("structured_messages", "tools", "tool_calls", "texts"))
                return Shown(*lists).slots(frozenset())

            assert not left(slots, body)

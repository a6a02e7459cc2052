"""The words that the published types of OpenAI and Anthropic list for members that choose among values.

They are public, and none of them says anything about a person. A member that takes a word takes one of these; the
upstream judges whether it is one of its own. A test compares them with the types of the SDKs.
"""

from __future__ import annotations

# Of requests, messages, parts, items and blocks: roles, types, states, choices.
_OPENAI = """
    1024x1024 1024x1536 12h 1536x1024 16g 1g 24h 2h 30m 4g 64g 8h aac additional_tools all_turns allowed_tools
    allowlist alloy always and application/zip apply_patch apply_patch_call apply_patch_call_output approximate ash
    assistant audio auto back ballad base64 block browser calling cedar click client code_interpreter
    code_interpreter_call code_interpreter_call.outputs commentary compaction compaction_trigger completed computer
    computer_call computer_call_output computer_call_output.output.image_url computer_screenshot computer_use
    computer_use_preview concise configuration_update connector_dropbox connector_gmail connector_googlecalendar
    connector_googledrive connector_microsoftteams connector_outlookcalendar connector_outlookemail
    connector_sharepoint container_auto container_file_citation container_reference content content_filter coral
    create_file current_turn custom custom_tool_call custom_tool_call_output daybreak_blue daybreak_red default
    default-2024-11-15 delete_file detailed developer direct disabled double_click drag echo edit enabled eq exec
    exit explicit failed fast file file_citation file_path file_search file_search_call file_search_call.results
    final_answer find_in_page flac flex forward function function_call function_call_output generate generating gif
    grammar gt gte high http_error image image_generation image_generation_call image_url implicit in in_memory
    in_progress incomplete inline input input_audio input_file input_image input_text interpreting item_reference
    jpeg json_object json_schema keypress lark left linux local local_shell local_shell_call local_shell_call_output
    logs low lt lte mac marin max mcp mcp_approval_request mcp_approval_response mcp_call mcp_list_tools
    mcp_protocol_error mcp_tool_execution_error medium message message.input_image.image_url
    message.output_text.logprobs minimal move mp3 namespace ne never nin none opaque open_page opus or original
    output output_text parallel pcm16 png priority pro program program_output programmatic programmatic_tool_calling
    reasoning reasoning.encrypted_content reasoning_text refusal regex required right sage scale score screenshot
    scroll search searching server shell shell_call shell_call_output shimmer skill_reference soonest standard
    summary_text svg system text timeout tool tool_search tool_search_call tool_search_output transparent type
    ubuntu ultrafast unknown update_file url url_citation user verse wait wav web_search web_search_2025_08_26
    web_search_call web_search_call.action.sources web_search_call.results web_search_preview
    web_search_preview_2025_03_11 webp wheel windows xhigh
"""
_ANTHROPIC = """
    1h 5m adaptive advisor advisor_redacted_result advisor_result advisor_tool_result advisor_tool_result_error all
    anthropic any application/pdf approximate assistant auto base64 bash bash_code_execution
    bash_code_execution_output bash_code_execution_result bash_code_execution_tool_result
    bash_code_execution_tool_result_error best_effort between_tools billing_policy browser_state browser_toolset
    char_location clear_thinking clear_tool_uses code_execution code_execution_output code_execution_result
    code_execution_tool_result code_execution_tool_result_error compact compaction computer computer_toolset
    container_upload content content_block_location content_too_large continue create custom default direct disabled
    document download_completed download_failed download_started downsize drop_block enabled
    encrypted_code_execution_result end_turn ephemeral error eu except excluded execution_time_exceeded fallback
    fast file file_not_found full global high image image/gif image/jpeg image/png image/webp input_tokens
    invalid_tool_input json_schema low max max_tokens max_uses_exceeded mcp_tool_listing mcp_tool_reference
    mcp_tool_result mcp_tool_use mcp_toolset mcp_toolset_reference medium memory model_context_window_exceeded
    model_not_found never next_user_message none object omitted only output_file_too_large overloaded page_location
    pause_turn pdf prompt_too_long query_too_long redacted_thinking refusal request_too_large search_result
    search_result_location self server_tool_use standard standard_only stop_sequence str_replace_based_edit_tool
    str_replace_editor strict summarize summarized system tab_opened text text/plain text_editor
    text_editor_code_execution text_editor_code_execution_create_result
    text_editor_code_execution_str_replace_result text_editor_code_execution_tool_result
    text_editor_code_execution_tool_result_error text_editor_code_execution_view_result thinking thinking_turns
    tokens too_many_requests tool tool_addition tool_definition tool_reference tool_removal tool_result
    tool_search_tool_bm25 tool_search_tool_regex tool_search_tool_result tool_search_tool_result_error
    tool_search_tool_search_result tool_use tool_uses unavailable unsupported_content_type updates url
    url_not_accessible url_not_allowed url_not_in_prior_context url_too_long us user user_profile web_fetch
    web_fetch_result web_fetch_tool_result web_fetch_tool_result_error web_search web_search_result
    web_search_result_location web_search_tool_result web_search_tool_result_error xhigh
"""
# Of JSON schemas (and OpenAPI, whose types tools use): `type`, `format`, `contentEncoding`, `contentMediaType`.
_SCHEMAS = """
    application/json application/octet-stream application/xml array ARRAY base64 base64url binary boolean BOOLEAN
    byte char color cuid cuid2 currency date date-time decimal double duration email emoji enum file-path float
    hostname idn-email idn-hostname int int16 int32 int64 int8 INTEGER integer ip ipv4 ipv6 iri iri-reference
    json-pointer json-string jwt multi-line nanoid NULL null number NUMBER OBJECT object password path phone regex
    relative-json-pointer STRING string text/html text/markdown text/plain time timestamp uint uint16 uint32 uint64
    uint8 ulid unix-time uri uri-reference uri-template url uuid uuid4 xid
"""
# Of other servers with OpenAI's format (vLLM, llama.cpp, Ollama, OpenRouter, Groq, DeepSeek, Mistral).
_OTHER = """
    anthropic-claude-v1 deepseek fallback google-gemini-v1 guidance hidden json lm-format-enforcer middle-out
    openai-responses-v1 outlines parsed raw reasoning.encrypted reasoning.summary reasoning.text redacted_thinking
    thinking xai-responses-v1 xgrammar
"""
WORDS = frozenset((_OPENAI + _ANTHROPIC + _SCHEMAS + _OTHER).split())

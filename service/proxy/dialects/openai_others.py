"""Members of requests that other servers with OpenAI's format take: vLLM, llama.cpp, Ollama, OpenRouter, Groq,
DeepSeek, Mistral, LiteLLM. They are in no type of OpenAI's SDK, whose `extra_body` sends them."""

from __future__ import annotations

from service.proxy.dialects.json_schema import SCHEMA
from service.proxy.dialects.public import PLAIN, REFUSED, WORD, each, record
from service.proxy.dialects.shapes import (
    DEFINITION,
    IDENTIFIER,
    METADATA,
    STRINGS,
    TEXT,
    TEXTS,
    Each,
    Either,
    Shape,
    Signed,
    Typed,
    Values,
)

CACHE_CONTROL = record(words="type ttl")
_GUIDED: dict[str, Shape] = {
    "json": Either(string=TEXT, record=SCHEMA),
    "regex": TEXT,
    "choice": TEXTS,
    "grammar": DEFINITION,
    "whitespace_pattern": DEFINITION,
}
OTHERS: dict[str, Shape] = {
    # texts
    "suffix": TEXT,
    "documents": STRINGS,
    "bad_words": TEXTS,
    "grammar": DEFINITION,
    "json_schema": SCHEMA,
    **{f"guided_{name}": shape for name, shape in _GUIDED.items()},
    "structured_outputs": record(_GUIDED, plain="json_object disable_any_whitespace disable_additional_properties"),
    "chat_template_kwargs": Values(Either(string=TEXT, number=PLAIN)),
    "client_metadata": METADATA,
    "request_id": IDENTIFIER,
    "cache_salt": IDENTIFIER,
    # settings
    **record(
        words="guided_decoding_backend reasoning_format prompt_mode route transforms",
        plain="""
        add_generation_prompt add_special_tokens best_of cache_prompt continue_final_message detokenize
        dry_allowed_length dry_base dry_multiplier dry_penalty_last_n dynatemp_exponent dynatemp_range echo
        enable_search enable_thinking id_slot ignore_eos include_reasoning include_stop_str_in_output length_penalty
        max_thinking_tokens min_keep min_p min_tokens mirostat mirostat_eta mirostat_tau n_keep n_predict n_probs
        num_ctx num_predict preserve_thinking priority prompt_logprobs random_seed reasoning_budget repeat_last_n
        repeat_penalty repetition_penalty return_progress return_token_ids return_tokens_as_token_ids safe_prompt
        skip_special_tokens spaces_between_special_tokens stream_usage t_max_predict_ms tfs_z thinking_budget
        timings_per_token top_a top_k truncate_prompt_tokens typical_p use_beam_search xtc_probability xtc_threshold
        """,
        # they call other servers, hold credentials, or run as templates
        refused="""
        chat_template data_sources extra_body extra_headers kv_transfer_params logits_processors mm_processor_kwargs
        models plugins provider search_settings tool_resources user_security_context vllm_xargs
        """,
    ).rows,
    "stop_token_ids": Each(PLAIN),
    "allowed_token_ids": Each(PLAIN),
    "keep_alive": Either(number=PLAIN),
    "think": Either(string=WORD, number=PLAIN),
    "thinking": record(words="type display", plain="budget_tokens"),
    "usage": record(plain="include"),
    "format": Either(string=WORD, record=SCHEMA),
    "cache_control": CACHE_CONTROL,
}

# Of an assistant's message, as clients send it back.
_THINKING: dict[str, Shape] = {
    "thinking": record(
        {"thinking": Signed(("signature",)), "cache_control": CACHE_CONTROL}, words="type", blobs="signature"
    ),
    "redacted_thinking": record({"cache_control": CACHE_CONTROL}, words="type", blobs="data"),
}
_DETAIL: dict[str, Shape] = {"text": Signed(("signature",)), "summary": Signed(("signature",))}
ANSWERED_BY_OTHERS: dict[str, Shape] = {
    "reasoning_content": TEXT,
    "reasoning": TEXT,
    "reasoning_details": each(_DETAIL, words="type format", plain="index", links="id", blobs="data signature"),
    "thinking_blocks": Each(Typed(_THINKING)),
    "provider_specific_fields": STRINGS,
    "images": REFUSED,
    "prefix": PLAIN,
    "parsed": STRINGS,
}

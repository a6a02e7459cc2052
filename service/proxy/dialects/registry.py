"""The wire formats of language models, one row each, by the path of their endpoint."""

from __future__ import annotations

from service.proxy.dialects.anthropic_messages import AnthropicMessages
from service.proxy.dialects.openai_chat import OpenAIChat
from service.proxy.dialects.openai_responses import OpenAIResponses
from service.proxy.dialects.protocol import Dialect

_ROWS: tuple[Dialect, ...] = (OpenAIChat(), OpenAIResponses(), AnthropicMessages())
DIALECTS: dict[str, Dialect] = {dialect.path: dialect for dialect in _ROWS}

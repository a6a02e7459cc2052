"""The texts in inputs and outputs of LangChain's runnables, in order, and the same values with other texts.

Numbers, and names of roles, tools, keys and identifiers, are no texts. They leave as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langchain_core.prompt_values import ChatPromptValue, PromptValue, StringPromptValue
from pydantic import BaseModel

Change = Callable[[str], str]
# the member of a content block that holds its text or its arguments
_BLOCKS = {"text": "text", "reasoning": "reasoning", "thinking": "thinking", "tool_use": "input", "tool_call": "args"}

_ROLES = ("system", "developer", "human", "user", "ai", "assistant")
# what else of a block is sent to a model; citations, for example, would quote originals
_BLOCK_MEMBERS = ("type", "id", "name")


def texts_of(value: Any, *, strict: bool) -> list[str]:
    """The texts of `value` that are not blank. strict: TypeError for a value whose texts cannot be reached."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _changed(value, note, strict)
    return found


def replaced(value: Any, texts: Iterable[str], *, strict: bool) -> Any:
    """`value` with other texts in place of those that `texts_of` returns."""
    others = iter(texts)
    return _changed(value, lambda _: next(others), strict)


def _changed(value: Any, change: Change, strict: bool) -> Any:
    if isinstance(value, str):
        return change(value) if value.strip() else value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, BaseMessage):
        return _message(value, change, strict)
    if isinstance(value, PromptValue):
        return _prompt(value, change, strict)
    if isinstance(value, Document):
        content = _changed(value.page_content, change, strict)
        return Document(id=value.id, page_content=content, metadata=_changed(value.metadata, change, strict))
    if isinstance(value, (list, tuple)):
        if value and all(_is_message(one) for one in value):
            value = convert_to_messages(value)
        changed = [_changed(one, change, strict) for one in value]
        return tuple(changed) if type(value) is tuple else changed
    if isinstance(value, Mapping):
        return {key: _changed(one, change, strict) for key, one in value.items()}
    if isinstance(value, BaseModel):
        # not validated again: an error would quote the texts, and a model with aliases does not take its own members
        members = dict(value)  # fields, and extra members where the model allows them
        return value.model_copy(update={name: _changed(one, change, strict) for name, one in members.items()})
    if strict:
        raise TypeError(f"a value of the type {type(value).__name__} cannot be masked")
    return value


def _is_message(value: Any) -> bool:
    """A message, or what LangChain takes for one: a pair of role and text, a dictionary with role and content."""
    if isinstance(value, Mapping):
        return {"role", "content"} <= value.keys()
    return isinstance(value, BaseMessage) or (isinstance(value, tuple) and len(value) == 2 and value[0] in _ROLES)


def _prompt(value: PromptValue, change: Change, strict: bool) -> Any:
    if isinstance(value, StringPromptValue):
        return StringPromptValue(text=_changed(value.text, change, strict))
    if isinstance(value, ChatPromptValue):
        return ChatPromptValue(messages=_changed(list(value.messages), change, strict))
    raise TypeError(f"a prompt of the type {type(value).__name__} cannot be masked")


def _message(message: BaseMessage, change: Change, strict: bool) -> BaseMessage:
    content = [message.content] if isinstance(message.content, str) else message.content
    blocks = [_block(block, change, strict) for block in content]
    update: dict[str, Any] = {"content": blocks[0] if isinstance(message.content, str) else blocks}
    if isinstance(message, AIMessage):
        for name in ("tool_calls", "invalid_tool_calls"):
            calls = getattr(message, name)
            update[name] = [{**call, "args": _changed(call["args"], change, strict)} for call in calls]
    if strict:  # what a model may be sent beside its messages
        update |= {"name": None, "additional_kwargs": {}, "response_metadata": {}}
        update |= {"artifact": None} if isinstance(message, ToolMessage) else {}
    return message.model_copy(update=update)


def _block(block: Any, change: Change, strict: bool) -> Any:
    if isinstance(block, str):
        return _changed(block, change, strict)
    member = _BLOCKS.get(block.get("type"))
    if member is None or member not in block:
        if strict:
            raise TypeError("a message has content that is no text and cannot be masked")
        return block
    kept = {name: block[name] for name in _BLOCK_MEMBERS if name in block} if strict else block
    return {**kept, member: _changed(block[member], change, strict)}

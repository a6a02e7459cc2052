"""Members that requests of every dialect have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from core.errors import InvalidInput


def model_of(body: Any) -> str:
    """Raises InvalidInput if the body is no object, or names no model."""
    if not isinstance(body, dict):
        raise InvalidInput("The body must be a JSON object.")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise InvalidInput("Name a model.", field="model")
    return model


def flag(body: Any, name: str, *, default: bool) -> bool:
    """A member that is true, false, null or missing. Raises InvalidInput for anything else."""
    value = body.get(name) if isinstance(body, dict) else None
    if value is not None and not isinstance(value, bool):
        raise InvalidInput("This member must be true or false.", field=name)
    return default if value is None else value


def member(body: Any, *names: str) -> Any:
    """A member of members, or None where one is missing."""
    for name in names:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list; nothing if it is no list."""
    return (element for element in value if isinstance(element, dict)) if isinstance(value, list) else iter(())


def first_text(content: Any) -> str:
    """The text of a message's content, or of its first part that has one."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in objects(content))
    return next((text for text in texts if isinstance(text, str)), "")


def first_text_of_user(messages: Any) -> str:
    return next(
        (first_text(message.get("content")) for message in objects(messages) if message.get("role") == "user"), ""
    )

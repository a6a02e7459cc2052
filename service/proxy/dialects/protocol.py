"""What every wire format of language models offers, and what it needs to read requests and to restore answers."""

from collections.abc import Iterator
from typing import Any, Literal, Protocol

from core.errors import InvalidInput
from service.proxy.slots import Slot

STORE, CONTINUED = "store", "previous_response_id"
"""Paths of `Dialect.kept_by_upstream`: of the answer is kept, and of the earlier answer that `continues` returns."""

Event = tuple[str | None, Any]
"""The name of a server-sent event, or None, and its data: parsed JSON, or the string if it is none (`[DONE]`)."""


class Restorer(Protocol):
    """Restores one text that arrives in pieces. What it holds back leaves with a later piece, or at `end`."""

    def feed(self, text: str) -> str: ...

    def end(self) -> str: ...


class Restorers(Protocol):
    """Restores the texts of one answer. The pieces of a text, restored in order, give what `whole` gives."""

    def text(self) -> Restorer: ...

    def json(self) -> Restorer:
        """For a JSON document: its string values are restored, and it stays valid."""
        ...

    def whole(self, text: str) -> str: ...

    def whole_json(self, text: str) -> str: ...


class StreamRestorer(Protocol):
    """Restores the events of one answer. One object serves one stream; it has no state beside it."""

    def event(self, name: str | None, data: Any) -> list[Event]:
        """The events that leave for this one: often one, none if all of its text is held back, sometimes more.

        `data` is changed in place.
        """
        ...

    def end(self) -> list[Event]:
        """The stream ended or was cut: the events for what is still held back."""
        ...


class Dialect(Protocol):
    """One wire format. All methods take parsed JSON; those for requests raise InvalidInput with the member's path.

    counting_path: of the endpoint that counts the tokens of a request; None where the format has none.
    """

    name: str
    path: str
    counting_path: str | None
    upstream_kind: Literal["openai", "anthropic"]

    def slots(self, body: Any, unread: frozenset[str] = frozenset()) -> Iterator[Slot]:
        """Every text of a request. Raises InvalidInput for a member that the dialect does not know, or that may hold
        text which nothing masks, unless its path is in `unread`.

        `logprobs` beside texts of earlier answers are emptied on the way: they repeat the text in pieces.
        """
        ...

    def model(self, body: Any) -> str: ...

    def streams(self, body: Any) -> bool: ...

    def structured(self, body: Any) -> bool:
        """Whether the request asks for an answer whose content is JSON."""
        ...

    def messages_of_user(self, body: Any) -> str:
        """The first text of the first message of the user, which stays the same through a conversation; else `""`."""
        ...

    def kept_by_upstream(self, body: Any) -> tuple[str, ...]:
        """The paths of the members that ask the upstream to keep the conversation, or to recall a kept one."""
        ...

    def continues(self, body: Any) -> str | None:
        """The identifier of the answer that a request continues and whose conversation the upstream recalls."""
        ...

    def answer_id(self, data: Any) -> str | None:
        """The identifier by which a later request may continue an answer: in the whole answer, or in an event."""
        ...

    def said(self, data: Any) -> str:
        """The text of a whole answer that may be continued, or of an event with it or a message of it; else `""`."""
        ...

    def restore(self, answer: Any, restorers: Restorers, *, structured: bool = False) -> None:
        """Restore a whole answer in place. `structured` is what `structured(body)` says of its request."""
        ...

    def restore_error(self, body: Any, restorers: Restorers) -> None:
        """Restore every string of an error's body in place."""
        ...

    def stream(self, restorers: Restorers, *, structured: bool = False) -> StreamRestorer: ...


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

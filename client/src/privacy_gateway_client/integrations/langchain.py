"""LangChain: private embeddings, a transformer that sanitises documents, and a runnable that masks and restores.

`pip install privacy-gateway-client[langchain]`
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.documents import BaseDocumentTransformer, Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langchain_core.prompt_values import ChatPromptValue, PromptValue, StringPromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor
from pydantic import BaseModel

from privacy_gateway_client import Gateway
from privacy_gateway_client.answers import Sanitized
from privacy_gateway_client.inputs import listed
from privacy_gateway_client.integrations.calls import Endpoint, OnRelease, TextEmbedder, lists_of, sanitize

_Change = Callable[[str], str]
# the member of a content block that holds its text or its arguments
_BLOCKS = {"text": "text", "reasoning": "reasoning", "thinking": "thinking", "tool_use": "input", "tool_call": "args"}

_ROLES = ("system", "developer", "human", "user", "ai", "assistant")
# what else of a block is sent to a model; citations, for example, would quote originals
_BLOCK_MEMBERS = ("type", "id", "name")


class PrivateEmbeddings(Embeddings):
    """Embeddings with a guarantee. Each document and each query costs `epsilon`.

    endpoint: `sentdp` protects one sentence of each text, `vector` each text as a whole.
    queries: embeds the queries instead, for example other `PrivateEmbeddings`, or a public model with the vectors of
        the gateway's encoder, which costs nothing and protects nothing.
    on_release: is called with each `Release`, which has the guarantee and the account's balance.
    options: further arguments of `Gateway.embed_documents` or `Gateway.embed_texts`.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        epsilon: float,
        endpoint: Endpoint = "sentdp",
        queries: Embeddings | None = None,
        on_release: OnRelease | None = None,
        **options: Any,
    ) -> None:
        self._gateway, self._queries = gateway, queries
        self._embedder = TextEmbedder(epsilon, endpoint, options, on_release)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return lists_of(self._embedder.embed(self._gateway, texts))

    def embed_query(self, text: str) -> list[float]:
        if self._queries is not None:
            vector: list[float] = self._queries.embed_query(text)
            return vector
        return self.embed_documents([text])[0]


class DocumentSanitizer(BaseDocumentTransformer):
    """Masks and fills the content of documents. No formal guarantee, except by the fills `dp` and `metric_dp`.

    Metadata may hold names, too: only the keys in `keep_metadata` stay. The facts of the release are added to it as
    `privacy_guarantee`, `privacy_epsilon` and others.
    options: `mask`, `fill`, `policy` of `Gateway.sanitize`.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        keep_metadata: Collection[str] = (),
        on_release: OnRelease | None = None,
        **options: Any,
    ) -> None:
        self._gateway, self._keep = gateway, frozenset(keep_metadata)
        self._options, self._on_release = options, on_release

    def transform_documents(self, documents: Sequence[Document], **_: Any) -> Sequence[Document]:
        documents = listed("documents", documents, Document)
        texts = [document.page_content for document in documents]
        cleaned = sanitize(self._gateway, texts, self._options, self._on_release)
        return [
            Document(
                id=document.id,
                page_content=text,
                metadata={key: value for key, value in document.metadata.items() if key in self._keep} | facts,
            )
            for document, (text, facts) in zip(documents, cleaned, strict=True)
        ]


class Reversible(Runnable[Any, Any]):
    """Runs a chat model, or another runnable, on masked input, and puts the originals back into its output.

    Input and output may be texts, messages, prompt values, and lists and dictionaries of them. Input that cannot be
    masked, such as a picture, is a TypeError, and nothing is sent. Keys of dictionaries and numbers that are not in a
    text are sent as they are. There is no formal guarantee: what the recognisers do not find reaches the model. It
    costs nothing.

    A stream has one piece, the whole output: a surrogate may be divided over the pieces of a model.
    Tracing sees what each runnable sees: the model masked texts, a chain around this runnable the originals.
    options: `mask`, `fill`, `policy` of `Gateway.sanitize`. The default fill is `surrogate`.
    """

    def __init__(self, gateway: Gateway, runnable: Runnable[Any, Any], **options: Any) -> None:
        self._gateway, self._runnable = gateway, runnable
        self._options = {"fill": {"mode": "surrogate"}, **options, "reversible": True}

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        texts = _texts_of(input, strict=True)
        if not texts:
            return self._runnable.invoke(input, config, **kwargs)
        masked = self._gateway.sanitize(texts, **self._options)
        output = self._runnable.invoke(_replaced(input, masked.texts, strict=True), config, **kwargs)
        found = _texts_of(output, strict=False)
        if not found:
            return output
        return _replaced(output, self._gateway.restore(found, _token(masked)), strict=False)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        texts = _texts_of(input, strict=True)
        if not texts:
            return await self._runnable.ainvoke(input, config, **kwargs)
        masked = await run_in_executor(None, partial(self._gateway.sanitize, texts, **self._options))
        output = await self._runnable.ainvoke(_replaced(input, masked.texts, strict=True), config, **kwargs)
        found = _texts_of(output, strict=False)
        if not found:
            return output
        restored = await run_in_executor(None, partial(self._gateway.restore, found, _token(masked)))
        return _replaced(output, restored, strict=False)


def _token(masked: Sanitized) -> str:
    if masked.restore_token is None:
        raise RuntimeError("a reversible call has a token")
    return masked.restore_token


def _texts_of(value: Any, *, strict: bool) -> list[str]:
    """The texts in an input or output of a runnable, in order, without blank ones.

    Numbers, and names of roles, tools, keys and identifiers, are no texts. They leave as they are.
    strict: TypeError for a value whose texts cannot be reached.
    """
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _changed(value, note, strict)
    return found


def _replaced(value: Any, texts: Iterable[str], *, strict: bool) -> Any:
    """`value` with other texts in place of those that `_texts_of` returns."""
    others = iter(texts)
    return _changed(value, lambda _: next(others), strict)


def _changed(value: Any, change: _Change, strict: bool) -> Any:
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


def _prompt(value: PromptValue, change: _Change, strict: bool) -> Any:
    if isinstance(value, StringPromptValue):
        return StringPromptValue(text=_changed(value.text, change, strict))
    if isinstance(value, ChatPromptValue):
        return ChatPromptValue(messages=_changed(list(value.messages), change, strict))
    raise TypeError(f"a prompt of the type {type(value).__name__} cannot be masked")


def _message(message: BaseMessage, change: _Change, strict: bool) -> BaseMessage:
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


def _block(block: Any, change: _Change, strict: bool) -> Any:
    if isinstance(block, str):
        return _changed(block, change, strict)
    member = _BLOCKS.get(block.get("type"))
    if member is None or member not in block:
        if strict:
            raise TypeError("a message has content that is no text and cannot be masked")
        return block
    kept = {name: block[name] for name in _BLOCK_MEMBERS if name in block} if strict else block
    return {**kept, member: _changed(block[member], change, strict)}

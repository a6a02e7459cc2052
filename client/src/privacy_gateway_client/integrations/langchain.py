"""LangChain: private embeddings, a transformer that sanitises documents, and a runnable that masks and restores.

`pip install privacy-gateway-client[langchain]`
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from langchain_core.documents import BaseDocumentTransformer, Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import run_in_executor

from privacy_gateway_client import Gateway
from privacy_gateway_client.integrations.calls import Embedder, Endpoint, OnRelease, lists_of, sanitize
from privacy_gateway_client.integrations.langchain_texts import replaced, texts_of
from privacy_gateway_client.results import Sanitized


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
        self._embedder = Embedder(epsilon, endpoint, options, on_release)

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
        texts = texts_of(input, strict=True)
        if not texts:
            return self._runnable.invoke(input, config, **kwargs)
        masked = self._gateway.sanitize(texts, **self._options)
        output = self._runnable.invoke(replaced(input, masked.texts, strict=True), config, **kwargs)
        found = texts_of(output, strict=False)
        if not found:
            return output
        return replaced(output, self._gateway.restore(found, _token(masked)), strict=False)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        texts = texts_of(input, strict=True)
        if not texts:
            return await self._runnable.ainvoke(input, config, **kwargs)
        masked = await run_in_executor(None, partial(self._gateway.sanitize, texts, **self._options))
        output = await self._runnable.ainvoke(replaced(input, masked.texts, strict=True), config, **kwargs)
        found = texts_of(output, strict=False)
        if not found:
            return output
        restored = await run_in_executor(None, partial(self._gateway.restore, found, _token(masked)))
        return replaced(output, restored, strict=False)


def _token(masked: Sanitized) -> str:
    if masked.restore_token is None:
        raise RuntimeError("a reversible call has a token")
    return masked.restore_token

"""Haystack: private embedders of documents and texts, and a component that sanitises documents.

`pip install privacy-gateway-client[haystack]`

A component is made from an address and a `Secret`, so that a pipeline can be written to YAML and read again. An error
of the client is the cause (`__cause__`) of Haystack's `PipelineRuntimeError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret
from typing_extensions import Self

from privacy_gateway_client import Gateway
from privacy_gateway_client.answers import Release
from privacy_gateway_client.inputs import listed, numbered
from privacy_gateway_client.integrations.calls import (
    Endpoint,
    TextEmbedder,
    facts_of,
    lists_of,
    release_facts,
    sanitize,
)
from privacy_gateway_client.options import Cache, new_cache_key

API_KEY = "PRIVACY_GATEWAY_API_KEY"


class _Client:
    """A client that is made with its first use. parameters: what the written form of a component has of it."""

    def __init__(self, url: str, api_key: Secret, cache_file: str | None, cache_key_file: str | None) -> None:
        if (cache_file is None) != (cache_key_file is None):
            raise ValueError("a cache has both a file and a file with its key")
        self._url, self._api_key, self._cache_file, self._cache_key_file = url, api_key, cache_file, cache_key_file
        self._gateway: Gateway | None = None
        self._cache: Cache | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "url": self._url,
            "api_key": self._api_key,
            "cache_file": self._cache_file,
            "cache_key_file": self._cache_key_file,
        }

    @property
    def gateway(self) -> Gateway:
        if self._gateway is None:
            if self._cache_file is not None and self._cache_key_file is not None:
                self._cache = Cache(self._cache_file, new_cache_key(self._cache_key_file))
            self._gateway = Gateway(self._url, self._api_key.resolve_value() or "", cache=self._cache)
        return self._gateway

    def close(self) -> None:
        if self._gateway is not None:
            self._gateway.close()
        if self._cache is not None:
            self._cache.close()
        self._gateway = self._cache = None


class _Component:
    """What the components share. `_terms`: what the written form has beside the client."""

    _client: _Client
    _terms: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        written: dict[str, Any] = default_to_dict(self, **self._client.parameters, **self._terms)
        return written

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        made: Self = default_from_dict(cls, data)
        return made

    def close(self) -> None:
        self._client.close()


@component
class PrivateDocumentEmbedder(_Component):
    """Embeds the content of documents with a guarantee. Each document costs `epsilon`; one without content nothing.

    The documents get the facts of the release in `meta`, as `privacy_guarantee`, `privacy_epsilon` and others.
    endpoint: `sentdp` protects one sentence of each document, `vector` each document as a whole.
    cache_file, cache_key_file: an encrypted cache of paid answers, so that equal contents are bought once.
    options: further arguments of `Gateway.embed_documents` or `Gateway.embed_texts`.
    """

    def __init__(
        self,
        url: str,
        *,
        epsilon: float,
        api_key: Secret = Secret.from_env_var(API_KEY),  # noqa: B008 - as Haystack's own components
        endpoint: Endpoint = "sentdp",
        cache_file: str | None = None,
        cache_key_file: str | None = None,
        **options: Any,
    ) -> None:
        self._client = _Client(url, api_key, cache_file, cache_key_file)
        self._terms = {"epsilon": epsilon, "endpoint": endpoint, **options}
        self._embedder = TextEmbedder(epsilon, endpoint, options)

    @component.output_types(documents=list[Document], meta=dict[str, Any])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """meta: `releases`, each with its facts, the number of documents, and the epsilon that is left."""
        documents = listed("documents", documents, Document)
        filled = [index for index, document in enumerate(documents) if (document.content or "").strip()]
        with numbered(filled):
            result = self._embedder.embed(self._client.gateway, [documents[index].content or "" for index in filled])
        made = list(documents)
        for index, vector, facts in zip(filled, lists_of(result), facts_of(result), strict=True):
            made[index] = replace(documents[index], embedding=vector, meta=documents[index].meta | facts)
        return {"documents": made, "meta": _summary(result.releases)}


@component
class PrivateTextEmbedder(_Component):
    """Embeds a text, such as a query, with a guarantee. Each text costs `epsilon`.

    By default, the text is protected as a whole, by `mechanism="document_selection"`. Other mechanisms of `sentdp`
    protect one sentence of it. The others: as of `PrivateDocumentEmbedder`.
    """

    def __init__(
        self,
        url: str,
        *,
        epsilon: float,
        api_key: Secret = Secret.from_env_var(API_KEY),  # noqa: B008
        endpoint: Endpoint = "sentdp",
        cache_file: str | None = None,
        cache_key_file: str | None = None,
        **options: Any,
    ) -> None:
        if endpoint == "sentdp":
            options = {"mechanism": "document_selection"} | options
        self._client = _Client(url, api_key, cache_file, cache_key_file)
        self._terms = {"epsilon": epsilon, "endpoint": endpoint, **options}
        self._embedder = TextEmbedder(epsilon, endpoint, options)

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    def run(self, text: str) -> dict[str, Any]:
        """meta: as of `PrivateDocumentEmbedder`."""
        result = self._embedder.embed(self._client.gateway, listed("text", [text], str))
        return {"embedding": lists_of(result)[0], "meta": _summary(result.releases)}


@component
class DocumentSanitizer(_Component):
    """Masks and fills the content of documents. No formal guarantee, except by the fills `dp` and `metric_dp`.

    A document is made anew, since the id of Haystack's documents is a hash of their content: it has the sanitised
    content, the score, of `meta` the keys in `keep_meta`, and the facts of the release. Blobs and embeddings are
    removed.
    options: `mask`, `fill`, `policy` of `Gateway.sanitize`.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: Secret = Secret.from_env_var(API_KEY),  # noqa: B008
        keep_meta: Sequence[str] = (),
        cache_file: str | None = None,
        cache_key_file: str | None = None,
        **options: Any,
    ) -> None:
        self._client = _Client(url, api_key, cache_file, cache_key_file)
        self._terms = {"keep_meta": list(keep_meta), **options}
        self._options = options

    @component.output_types(documents=list[Document], meta=dict[str, Any])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """meta: as of `PrivateDocumentEmbedder`."""
        releases: list[Release] = []
        documents = listed("documents", documents, Document)
        texts = [document.content or "" for document in documents]
        cleaned = sanitize(self._client.gateway, texts, self._options, releases.append)
        made = []
        for document, (text, facts) in zip(documents, cleaned, strict=True):
            kept = {key: value for key, value in document.meta.items() if key in self._terms["keep_meta"]}
            made.append(Document(content=text, meta=kept | facts, score=document.score))
        return {"documents": made, "meta": _summary(releases)}


def _summary(releases: list[Release]) -> dict[str, Any]:
    return {
        "releases": [
            {**release_facts(release), "inputs": len(release.inputs), "cached": release.cached}
            | ({} if release.budget is None else {"remaining_epsilon": release.budget.remaining.epsilon})
            for release in releases
        ]
    }

"""LlamaIndex: private embeddings, and a post-processor that sanitises nodes before a model sees them.

`pip install privacy-gateway-client[llama-index]`
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from pydantic import PrivateAttr

from privacy_gateway_client import Gateway
from privacy_gateway_client.inputs import texts_of
from privacy_gateway_client.integrations.calls import Endpoint, OnRelease, TextEmbedder, lists_of, sanitize

_BATCH = 2048  # texts of one call, LlamaIndex's maximum, which the client cuts into parts; its own default is 10


class PrivateEmbedding(BaseEmbedding):
    """Embeddings with a guarantee. Each node and each query costs `epsilon`.

    A node is embedded with the metadata that LlamaIndex adds to its text (`excluded_embed_metadata_keys` of the node).
    endpoint: `sentdp` protects one sentence of each text, `vector` each text as a whole.
    queries: embeds the queries instead, for example another `PrivateEmbedding`, or a public model with the vectors of
        the gateway's encoder, which costs nothing and protects nothing.
    on_release: is called with each `Release`, which has the guarantee and the account's balance.
    options: further arguments of `Gateway.embed_documents` or `Gateway.embed_texts`.
    """

    epsilon: float
    endpoint: str
    options: dict[str, Any]
    _gateway: Gateway = PrivateAttr()
    _queries: BaseEmbedding | None = PrivateAttr()
    _embedder: TextEmbedder = PrivateAttr()

    def __init__(
        self,
        gateway: Gateway,
        *,
        epsilon: float,
        endpoint: Endpoint = "sentdp",
        queries: BaseEmbedding | None = None,
        on_release: OnRelease | None = None,
        embed_batch_size: int = _BATCH,
        **options: Any,
    ) -> None:
        super().__init__(
            model_name=f"privacy-gateway/{options.get('mechanism') or endpoint}",
            embed_batch_size=embed_batch_size,
            epsilon=epsilon,
            endpoint=endpoint,
            options=options,
        )
        self._gateway, self._queries = gateway, queries
        self._embedder = TextEmbedder(epsilon, endpoint, options, on_release)

    @classmethod
    def class_name(cls) -> str:
        return "PrivateEmbedding"

    def get_text_embedding_batch(self, texts: list[str], show_progress: bool = False, **kwargs: Any) -> Any:
        """LlamaIndex embeds a batch before it reads the next one: all texts are checked before the first is paid."""
        return super().get_text_embedding_batch(texts_of("texts", texts), show_progress, **kwargs)

    async def aget_text_embedding_batch(self, texts: list[str], show_progress: bool = False, **kwargs: Any) -> Any:
        """The same, awaited."""
        return await super().aget_text_embedding_batch(texts_of("texts", texts), show_progress, **kwargs)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return lists_of(self._embedder.embed(self._gateway, texts))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        if self._queries is not None:
            vector: list[float] = self._queries.get_query_embedding(query)
            return vector
        return self._get_text_embedding(query)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)


class NodeSanitizer(BaseNodePostprocessor):
    """Masks and fills the texts of nodes. No formal guarantee, except by the fills `dp` and `metric_dp`.

    Metadata may hold names, too, and relationships hold hashes of the originals: only the keys in `keep_metadata` stay.
    The facts of the release are added to the metadata, not for the model, as `privacy_guarantee` and others.
    options: `mask`, `fill`, `policy` of `Gateway.sanitize`.
    """

    keep_metadata: list[str]
    options: dict[str, Any]
    _gateway: Gateway = PrivateAttr()
    _on_release: OnRelease | None = PrivateAttr()

    def __init__(
        self,
        gateway: Gateway,
        *,
        keep_metadata: Collection[str] = (),
        on_release: OnRelease | None = None,
        **options: Any,
    ) -> None:
        super().__init__(keep_metadata=list(keep_metadata), options=options)
        self._gateway, self._on_release = gateway, on_release

    @classmethod
    def class_name(cls) -> str:
        return "NodeSanitizer"

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002 - of LlamaIndex's interface
    ) -> list[NodeWithScore]:
        texts = [scored.node.get_content(metadata_mode=MetadataMode.NONE) for scored in nodes]
        cleaned = sanitize(self._gateway, texts, self.options, self._on_release)
        made = []
        for scored, (text, facts) in zip(nodes, cleaned, strict=True):
            kept = {key: value for key, value in scored.node.metadata.items() if key in self.keep_metadata}
            node = TextNode(
                id_=scored.node.node_id,
                text=text,
                metadata=kept | facts,
                excluded_llm_metadata_keys=list(facts),
                excluded_embed_metadata_keys=list(facts),
            )
            made.append(NodeWithScore(node=node, score=scored.score))
        return made

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._postprocess_nodes, nodes, query_bundle)

"""Haystack: pipelines over private vectors and sanitised documents, and their written form."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.core.errors import PipelineRuntimeError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.utils import Secret
from suite_kit import LETTER, REVIEWS, URL, new_tenant, shown, spent

from privacy_gateway_client import BudgetExhausted, Gateway
from privacy_gateway_client.integrations.haystack import DocumentSanitizer, PrivateDocumentEmbedder, PrivateTextEmbedder

ASKED = "The room was clean. The breakfast was good. The staff smiled. We slept well."


@pytest.fixture
def tenant(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """A client of the tenant whose key is in the environment."""
    key = new_tenant()
    monkeypatch.setenv("PRIVACY_GATEWAY_API_KEY", key)
    return Gateway(URL, key)


def test_a_pipeline_writes_and_finds_private_vectors(tenant: Gateway) -> None:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    indexing = Pipeline()
    indexing.add_component("embedder", PrivateDocumentEmbedder(URL, epsilon=25))
    indexing.add_component("writer", DocumentWriter(store))
    indexing.connect("embedder.documents", "writer.documents")
    made = indexing.run({"embedder": {"documents": [Document(content=text) for text in REVIEWS]}})
    [release] = made["embedder"]["meta"]["releases"]
    assert (release["inputs"], release["privacy_epsilon"], release["remaining_epsilon"]) == (3, 25, 925)

    search = Pipeline()
    search.add_component("embedder", PrivateTextEmbedder(URL, epsilon=25, endpoint="sentdp"))
    search.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=1))
    search.connect("embedder.embedding", "retriever.query_embedding")
    [found] = search.run({"embedder": {"text": ASKED}})["retriever"]["documents"]
    assert found.content == REVIEWS[0]
    assert found.meta["privacy_guarantee"] == "pure-dp"
    assert spent(tenant) == 100


def test_a_pipeline_awaits(tenant: Gateway) -> None:
    pipeline = Pipeline()
    pipeline.add_component("sanitizer", DocumentSanitizer(URL))
    pipeline.add_component("embedder", PrivateDocumentEmbedder(URL, epsilon=3, endpoint="vector"))
    pipeline.connect("sanitizer.documents", "embedder.documents")
    made = asyncio.run(pipeline.run_async({"sanitizer": {"documents": [Document(content=LETTER)]}}))
    [document] = made["embedder"]["documents"]
    assert not shown(document.content)
    assert len(document.embedding) == 384


def test_documents_without_content_cost_nothing(tenant: Gateway) -> None:
    documents = [Document(content=None, meta={"a": 1}), Document(content=REVIEWS[0]), Document(content=" ")]
    made = PrivateDocumentEmbedder(URL, epsilon=3).run(documents)["documents"]
    assert [document.embedding is None for document in made] == [True, False, True]
    assert [document.id for document in made] == [document.id for document in documents]
    assert documents[1].embedding is None
    assert spent(tenant) == 3
    assert PrivateDocumentEmbedder(URL, epsilon=3).run([]) == {"documents": [], "meta": {"releases": []}}


def test_strings_are_no_documents_and_a_list_is_no_text(tenant: Gateway) -> None:
    for call in (
        lambda: PrivateDocumentEmbedder(URL, epsilon=3).run("hello"),
        lambda: PrivateDocumentEmbedder(URL, epsilon=3).run(["hello"]),
        lambda: DocumentSanitizer(URL).run("hello"),
        lambda: PrivateTextEmbedder(URL, epsilon=3).run(["hello"]),
    ):
        with pytest.raises(TypeError, match=r"Document|str"):
            call()
    assert spent(tenant) == 0


def test_sanitised_documents_have_no_name_and_no_hash_of_one(tenant: Gateway) -> None:
    original = Document(content=LETTER, meta={"author": "Maria Keller", "page": 3}, score=0.5, embedding=[1.0])
    [made] = DocumentSanitizer(URL, keep_meta=["page"]).run([original])["documents"]
    assert not shown(str(made.to_dict()))
    assert made.id != original.id
    assert (made.meta, made.score, made.embedding) == ({"page": 3, "privacy_guarantee": "none"}, 0.5, None)
    assert original.content == LETTER


def test_a_pipeline_with_a_secret_is_written_and_read(tenant: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline()
    pipeline.add_component("sanitizer", DocumentSanitizer(URL, keep_meta=["page"], fill={"mode": "surrogate"}))
    pipeline.add_component("embedder", PrivateDocumentEmbedder(URL, epsilon=3, domain="general"))
    pipeline.connect("sanitizer.documents", "embedder.documents")
    pipeline.add_component("query", PrivateTextEmbedder(URL, epsilon=2, api_key=Secret.from_env_var("OTHER_KEY")))
    written = pipeline.dumps()
    assert "pgw_" not in written
    read = Pipeline.loads(written, allowed_modules=["privacy_gateway_client.integrations.haystack"])
    assert read.to_dict() == pipeline.to_dict()
    documents = [Document(content=LETTER, meta={"page": 3})]
    monkeypatch.setenv("OTHER_KEY", new_tenant())
    made = read.run({"sanitizer": {"documents": documents}, "query": {"text": "Which card?"}})
    [document] = made["embedder"]["documents"]
    assert document.meta["page"] == 3
    assert not shown(document.content)
    assert len(made["query"]["embedding"]) == len(document.embedding)


def test_a_key_as_a_token_is_not_written() -> None:
    embedder = PrivateDocumentEmbedder(URL, epsilon=3, api_key=Secret.from_token("pgw_secret"))
    with pytest.raises(ValueError, match="serialize"):
        embedder.to_dict()


def test_a_cache_buys_equal_contents_once(tenant: Gateway, tmp_path: Path) -> None:
    files = {"cache_file": str(tmp_path / "cache.db"), "cache_key_file": str(tmp_path / "cache.key")}
    documents = [Document(content=text) for text in REVIEWS]
    first = PrivateDocumentEmbedder(URL, epsilon=3, **files)
    again = PrivateDocumentEmbedder.from_dict(first.to_dict())
    bought, cached = first.run(documents), again.run(documents)
    assert [one.embedding for one in bought["documents"]] == [one.embedding for one in cached["documents"]]
    assert all(release["cached"] for release in cached["meta"]["releases"])
    assert spent(tenant) == 9
    first.close()
    again.close()


def test_the_end_of_the_budget_is_the_cause_of_the_error_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_GATEWAY_API_KEY", new_tenant(5))
    documents = [Document(content=text) for text in REVIEWS]
    embedder = PrivateDocumentEmbedder(URL, epsilon=3)
    with pytest.raises(BudgetExhausted):
        embedder.run(documents)
    pipeline = Pipeline()
    pipeline.add_component("embedder", embedder)
    with pytest.raises(PipelineRuntimeError) as error:
        pipeline.run({"embedder": {"documents": documents}})
    assert isinstance(error.value.__cause__, BudgetExhausted)
    assert "hotel" not in str(error.value)


def test_the_example_of_the_guide_runs(run_example: Any) -> None:
    names = run_example("Haystack")
    assert names["found"][0].meta["privacy_guarantee"]

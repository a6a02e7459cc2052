"""LlamaIndex: indexes over private vectors, and nodes without names."""

import asyncio
from typing import Any

import pytest
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from suite_kit import LETTER, REVIEWS, shown, spent

from privacy_gateway_client import BudgetExhausted, Gateway, InvalidRequest, Release
from privacy_gateway_client.integrations.llama_index import NodeSanitizer, PrivateEmbedding

ASKED = "The room was clean. The breakfast was good. The staff smiled. We slept well."


def nodes() -> list[TextNode]:
    """New ones for each test, since LlamaIndex keeps vectors in them."""
    return [TextNode(text=text) for text in REVIEWS]


def test_an_index_finds_the_review_of_a_topic(gateway: Gateway) -> None:
    releases: list[Release] = []
    embedding = PrivateEmbedding(gateway, epsilon=25, on_release=releases.append)
    index = VectorStoreIndex(nodes(), embed_model=embedding)
    [found] = index.as_retriever(similarity_top_k=1).retrieve(ASKED)
    assert found.node.text == REVIEWS[0]
    assert spent(gateway) == 25 * (len(REVIEWS) + 1)
    assert [len(release.inputs) for release in releases] == [3, 1]
    assert releases[0].privacy.unit == "sentence"


async def test_every_method_awaits(gateway: Gateway) -> None:
    embedding = PrivateEmbedding(gateway, epsilon=3, endpoint="vector")
    vectors = await embedding.aget_text_embedding_batch(REVIEWS)
    vectors.append(await embedding.aget_text_embedding(REVIEWS[0]))
    vectors.append(await embedding.aget_query_embedding(ASKED))
    assert {len(vector) for vector in vectors} == {384}
    assert spent(gateway) == 15


def test_queries_of_another_model_cost_nothing(gateway: Gateway) -> None:
    embedding = PrivateEmbedding(gateway, epsilon=3, queries=MockEmbedding(embed_dim=2))
    assert embedding.get_query_embedding(ASKED) == [0.5, 0.5]
    assert asyncio.run(embedding.aget_query_embedding(ASKED)) == [0.5, 0.5]
    assert spent(gateway) == 0


def test_the_written_form_has_the_parameters_and_no_key(gateway: Gateway) -> None:
    written = PrivateEmbedding(gateway, epsilon=2, domain="general").to_dict()
    assert written["epsilon"] == 2
    assert written["options"] == {"domain": "general"}
    assert "pgw_" not in str(written)


def test_the_end_of_the_budget_passes_through(poor_gateway: Gateway) -> None:
    with pytest.raises(BudgetExhausted):
        VectorStoreIndex(nodes(), embed_model=PrivateEmbedding(poor_gateway, epsilon=2))


def test_mistakes_are_found_before_the_first_batch_is_paid(gateway: Gateway) -> None:
    embedding = PrivateEmbedding(gateway, epsilon=2, embed_batch_size=2)
    assert len(embedding.get_text_embedding_batch("hello")) == 1
    with pytest.raises(InvalidRequest, match=r"texts\.3: "):
        embedding.get_text_embedding_batch([*REVIEWS, " "])
    assert spent(gateway) == 2


def letter() -> NodeWithScore:
    parent = RelatedNodeInfo(node_id="letters/maria-keller.txt", hash="zq-hash", metadata={"author": "Maria Keller"})
    node = TextNode(
        text=LETTER, metadata={"author": "Maria Keller", "page": 3}, relationships={NodeRelationship.SOURCE: parent}
    )
    return NodeWithScore(node=node, score=0.5)


def test_nodes_leave_without_names(gateway: Gateway) -> None:
    original = letter()
    blank = NodeWithScore(node=TextNode(text=" "), score=0.1)
    [made, empty] = NodeSanitizer(gateway, keep_metadata=["page"]).postprocess_nodes([original, blank])
    assert not shown(str(made.node.to_dict()))
    assert "zq-hash" not in str(made.node.to_dict())
    assert made.node.metadata == {"page": 3, "privacy_guarantee": "none"}
    assert (made.node.node_id, made.score) == (original.node.node_id, 0.5)
    assert "privacy" not in made.node.get_content("llm")
    assert empty.node.text == " "
    assert original.node.text == LETTER


async def test_nodes_are_sanitised_asynchronously(gateway: Gateway) -> None:
    [made] = await NodeSanitizer(gateway).apostprocess_nodes([letter()])
    assert not shown(made.node.text)


def test_the_model_of_a_query_engine_sees_no_name(gateway: Gateway) -> None:
    class Echo(MockLLM):
        def complete(self, prompt: str, *args: Any, **kwargs: Any) -> Any:
            seen.append(prompt)
            return super().complete(prompt, *args, **kwargs)

    seen: list[str] = []
    index = VectorStoreIndex.from_documents(
        [Document(text=LETTER)], embed_model=PrivateEmbedding(gateway, epsilon=10, endpoint="vector")
    )
    engine = index.as_query_engine(llm=Echo(), node_postprocessors=[NodeSanitizer(gateway)])
    answer = engine.query("Which card?")
    assert seen
    assert "card" in seen[0]
    assert not shown(str(seen))
    assert answer.source_nodes[0].node.metadata["privacy_guarantee"] == "none"


def test_the_example_of_the_guide_runs(run_example: Any) -> None:
    names = run_example("LlamaIndex", model=MockLLM())
    assert names["answer"].source_nodes[0].node.metadata["privacy_guarantee"] == "none"

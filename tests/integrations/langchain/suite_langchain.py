"""LangChain: the standard tests of embeddings, documents without names, and models that see no names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests
from pydantic import BaseModel, ConfigDict, Field
from suite_kit import LETTER, REVIEWS, shown, spent

from privacy_gateway_client import BudgetExhausted, ConnectionLost, Gateway, Rejected, Release, Retry
from privacy_gateway_client.integrations.langchain import DocumentSanitizer, PrivateEmbeddings, Reversible


class Params:
    """What the standard tests make embeddings with."""

    made: ClassVar[dict[str, Any]]

    @pytest.fixture(autouse=True)
    def _params(self, gateway: Gateway) -> None:
        type(self).made = {"gateway": gateway, "epsilon": 3.0, "endpoint": "vector"}

    @property
    def embeddings_class(self) -> type[PrivateEmbeddings]:
        return PrivateEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return self.made


class TestUnit(Params, EmbeddingsUnitTests):
    pass


class TestIntegration(Params, EmbeddingsIntegrationTests):
    pass


class EchoModel(GenericFakeChatModel):
    """Answers with what it was sent, and keeps it."""

    messages: Iterator[Any] = iter(())
    seen: list[Any]

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self.seen.extend(messages)
        content = messages[-1].content
        answer = AIMessage(content, tool_calls=[{"name": "mail", "args": {"to": [content]}, "id": "t1"}])
        self.messages = iter([answer])
        return super()._generate(messages, *args, **kwargs)


def test_each_text_is_charged_and_each_release_is_reported(gateway: Gateway) -> None:
    releases: list[Release] = []
    embeddings = PrivateEmbeddings(gateway, epsilon=2, on_release=releases.append)
    embeddings.embed_documents(REVIEWS)
    embeddings.embed_query("clean hotel")
    assert spent(gateway) == 2 * (len(REVIEWS) + 1)
    assert [(len(one.inputs), one.privacy.epsilon, one.privacy.unit) for one in releases] == [
        (3, 2, "sentence"),
        (1, 2, "sentence"),
    ]


def test_queries_of_another_model_cost_nothing(gateway: Gateway) -> None:
    class Fixed(PrivateEmbeddings):
        def embed_query(self, text: str) -> list[float]:
            return [1.0]

    embeddings = PrivateEmbeddings(gateway, epsilon=2, queries=Fixed(gateway, epsilon=1))
    assert embeddings.embed_query("anything") == [1.0]
    assert spent(gateway) == 0


def test_the_end_of_the_budget_passes_through(poor_gateway: Gateway) -> None:
    with pytest.raises(BudgetExhausted) as refused:
        PrivateEmbeddings(poor_gateway, epsilon=2).embed_documents(REVIEWS)
    assert refused.value.remaining.epsilon == 5
    assert spent(poor_gateway) == 0


def test_releases_before_an_error_are_reported(gateway: Gateway) -> None:
    releases: list[Release] = []
    many = PrivateEmbeddings(gateway, epsilon=0.015, on_release=releases.append)
    with pytest.raises(Rejected, match=r"documents\.300: ") as refused:
        many.embed_documents([*REVIEWS[:1] * 300, "One. " * 3000])
    paid = sum(len(one.inputs) for one in releases)
    assert paid == len(refused.value.partial.indices) == 256
    assert spent(gateway) == pytest.approx(paid * 0.015)


def test_a_batch_of_the_size_of_the_framework_is_embedded_or_refused_as_a_whole(gateway: Gateway) -> None:
    assert len(PrivateEmbeddings(gateway, epsilon=0.1).embed_documents(["One. Two."] * 1000)) == 1000
    before = spent(gateway)
    with pytest.raises(BudgetExhausted, match="first 90 inputs"):
        PrivateEmbeddings(gateway, epsilon=10).embed_documents(["One. Two."] * 1000)
    assert spent(gateway) == before


def test_a_string_is_one_text_and_no_list_of_documents(gateway: Gateway) -> None:
    assert len(PrivateEmbeddings(gateway, epsilon=2).embed_documents("hello")) == 1
    with pytest.raises(TypeError, match="list of Document"):
        DocumentSanitizer(gateway).transform_documents("hello")
    assert spent(gateway) == 2


def test_documents_leave_without_names_and_with_the_facts_of_their_release(gateway: Gateway) -> None:
    metadata = {"author": "Maria Keller", "page": 3}
    documents = [Document(LETTER, metadata=metadata, id="a"), Document("Nothing to hide.")]
    [letter, other] = DocumentSanitizer(gateway, keep_metadata=["page"]).transform_documents(documents)
    assert not shown(letter.page_content)
    assert letter.metadata == {"page": 3, "privacy_guarantee": "none"}
    assert letter.id == "a"
    assert other.page_content == "Nothing to hide."
    assert documents[0].page_content == LETTER
    assert spent(gateway) == 0


def test_a_model_sees_no_name_and_its_answer_has_them(gateway: Gateway) -> None:
    model = EchoModel(seen=[])
    answer = Reversible(gateway, model).invoke([SystemMessage("You work for Maria Keller."), HumanMessage(LETTER)])
    assert answer.content == LETTER
    assert answer.tool_calls[0]["args"] == {"to": [LETTER]}
    assert len(model.seen) == 2
    assert not shown(str(model.seen))
    assert spent(gateway) == 0


def test_a_chain_of_prompt_model_and_parser(gateway: Gateway) -> None:
    model = EchoModel(seen=[])
    prompt = ChatPromptTemplate.from_messages([("system", "Be short."), ("human", "Summarise: {letter}")])
    inside = Reversible(gateway, prompt | model | StrOutputParser())
    around = prompt | Reversible(gateway, model) | StrOutputParser()
    assert inside.invoke({"letter": LETTER}) == around.invoke({"letter": LETTER}) == f"Summarise: {LETTER}"
    assert list(around.stream({"letter": LETTER})) == [f"Summarise: {LETTER}"]
    assert inside.batch([{"letter": LETTER}, {"letter": "Nothing."}])[1] == "Summarise: Nothing."
    assert not shown(str(model.seen))


async def test_everything_awaits(gateway: Gateway) -> None:
    model = EchoModel(seen=[])
    assert len(await PrivateEmbeddings(gateway, epsilon=3).aembed_query("clean hotel")) == 384
    [made] = await DocumentSanitizer(gateway).atransform_documents([Document(LETTER)])
    assert not shown(made.page_content)
    assert (await Reversible(gateway, model).ainvoke(LETTER)).content == LETTER
    assert not shown(str(model.seen))


def test_a_conversation_with_tools_leaves_masked(gateway: Gateway) -> None:
    model = EchoModel(seen=[])
    call = {"name": "find", "args": {"name": "Maria Keller"}, "id": "t1"}
    history = [
        HumanMessage([{"type": "text", "text": "Who lives in Lisbon?", "note": "Maria Keller"}], name="Maria"),
        AIMessage("", tool_calls=[call], additional_kwargs={"sent": "Maria Keller"}),
        ToolMessage("Maria Keller has it.", tool_call_id="t1", artifact="Maria Keller"),
    ]
    assert Reversible(gateway, model).invoke(history).content == "Maria Keller has it."
    assert not shown(str(model.seen))
    assert [message.type for message in model.seen] == ["human", "ai", "tool"]
    assert model.seen[0].name is None
    assert model.seen[1].tool_calls[0]["name"] == "find"


def test_structured_output_with_aliases_and_limits_is_restored(gateway: Gateway) -> None:
    class Person(BaseModel):
        model_config = ConfigDict(extra="allow")
        name: str = Field(alias="fullName", max_length=40)

    class Note(BaseModel):
        person: Person
        pair: tuple[str, int]

    def note(text: str) -> Note:
        name = text.removeprefix("I am ")
        return Note(person=Person(fullName=name.ljust(40), by=name), pair=(name, 1))

    made = Reversible(gateway, RunnableLambda(note)).invoke("I am Maximiliane Keller")
    assert (made.person.name.strip(), made.person.by, made.pair) == (
        *["Maximiliane Keller"] * 2,
        ("Maximiliane Keller", 1),
    )


def test_what_cannot_be_masked_is_refused(gateway: Gateway) -> None:
    model = EchoModel(seen=[])
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/maria.png"}}
    for refused in ([HumanMessage([picture])], {"file": b"Maria"}, object()):
        with pytest.raises(TypeError) as error:
            Reversible(gateway, model).invoke(refused)
        assert "maria" not in str(error.value).casefold()
    assert not model.seen


def test_a_model_is_not_called_without_the_gateway() -> None:
    model = EchoModel(seen=[])
    nowhere = Gateway("http://127.0.0.1:9", "pgw_none", retry=Retry(attempts=1))
    with nowhere, pytest.raises(ConnectionLost):
        Reversible(nowhere, model).invoke(LETTER)
    assert not model.seen


def test_a_model_without_input_text_is_called_as_it_is(gateway: Gateway) -> None:
    assert Reversible(gateway, RunnableLambda(lambda number: number + 1)).invoke(1) == 2


def test_the_example_of_the_guide_runs(run_example: Any) -> None:
    names = run_example("LangChain", model=EchoModel(seen=[]))
    assert names["clean"][0].metadata["privacy_guarantee"] == "none"
    assert "Maria Keller" in names["answer"].content

"""What a route declares is in the description of the API, and does not change what it answers."""

import asyncio
from typing import Annotated, NotRequired

import httpx
import pytest
from declared_answers import DeclaredAnswers
from fastapi import APIRouter, Response
from gateway_kit import Tenant
from inprocess_kit import Gateway
from typing_extensions import TypedDict

from service.http.answers import DEFAULT_PROBLEM, AnswerRoute, DescribedAPI, ProblemDocument, doc


class Inner(TypedDict):
    """A part."""

    count: Annotated[int, doc("How many.")]


class Outer(TypedDict):
    """An answer."""

    parts: Annotated[list[Inner], doc("The parts.")]
    note: NotRequired[Annotated[str, doc("A note.")]]


router = APIRouter(route_class=AnswerRoute)


@router.get("/returned")
async def returned() -> Outer:
    return {"parts": [{"count": "many", "more": 1}]}  # type: ignore[list-item, typeddict-item, typeddict-unknown-key]


@router.get("/written", response_model=Outer)
async def written() -> Response:
    return Response(b'{"parts": [{"count": 1}]}', media_type="application/json")


@pytest.fixture(scope="module")
def app() -> DescribedAPI:
    app = DescribedAPI(responses=DEFAULT_PROBLEM)
    app.include_router(router)
    return app


def answer_of(app: DescribedAPI, path: str) -> httpx.Response:
    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
            return await client.get(path)

    return asyncio.run(asked())


def test_an_answer_is_written_as_it_is_returned(app: DescribedAPI) -> None:
    assert answer_of(app, "/returned").json() == {"parts": [{"count": "many", "more": 1}]}


def test_declared_types_are_components_with_descriptions(app: DescribedAPI) -> None:
    document = app.openapi()
    schemas = document["components"]["schemas"]
    for path in ("/returned", "/written"):
        responses = document["paths"][path]["get"]["responses"]
        assert responses["200"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Outer"}
        [(kind, problem)] = responses["default"]["content"].items()
        assert (kind, problem["schema"]["$ref"].split("/")[-1]) == (
            "application/problem+json",
            ProblemDocument.__name__,
        )
    assert schemas["Outer"]["required"] == ["parts"]
    assert schemas["Inner"]["properties"]["count"]["description"] == "How many."
    assert {"Inner", "Outer", "ProblemDocument", "BudgetAmount"} <= schemas.keys()


def test_an_answer_that_is_not_as_declared_is_found(app: DescribedAPI) -> None:
    declared = DeclaredAnswers(app)
    declared.check(answer_of(app, "/written"), method="GET", route="/written")
    with pytest.raises(AssertionError, match=r"parts\.0.*'more' was unexpected"):
        declared.check(answer_of(app, "/returned"), method="GET", route="/returned")


def test_every_answer_of_the_gateway_describes_its_members(gateway: Gateway) -> None:
    document = gateway.app.openapi()
    problem = document["components"]["schemas"][ProblemDocument.__name__]
    assert all(member["description"] for member in problem["properties"].values())
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
            contents = [each for answer in answers for each in answer.get("content", {}).items()]
            assert all(content["schema"] for kind, content in contents if "json" in kind), f"{method} {path}"


def test_errors_under_v1_are_described_in_the_shape_of_the_providers(gateway: Gateway, tenant: Tenant) -> None:
    answer = gateway.with_key(tenant, "release").http.post("/v1/embeddings", json={})
    assert answer.status_code == 400
    responses = gateway.app.openapi()["paths"]["/v1/embeddings"]["post"]["responses"]
    for response in (each for status, each in responses.items() if not status.startswith("2")):
        assert [*response["content"]] == [answer.headers["content-type"]]
    DeclaredAnswers(gateway.app).check(answer, method="POST", route="/v1/embeddings")

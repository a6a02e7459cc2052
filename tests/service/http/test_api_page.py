"""The description of the API is made once, however often it is asked for."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.testclient import TestClient
from inprocess_kit import Gateway

from service.http.api_page import add_api_page


def test_the_description_and_the_files_of_the_page_are_made_once() -> None:
    app = FastAPI(openapi_url=None, title="An API")
    add_api_page(app)
    made = []
    openapi = app.openapi
    app.openapi = lambda: made.append(1) or openapi()  # type: ignore[method-assign, func-returns-value]
    client = TestClient(app)
    answers = [client.get("/openapi.json") for _ in range(3)]
    assert [answer.json()["info"]["title"] for answer in answers] == ["An API"] * 3
    assert len(made) == 1


def test_files_of_the_page_have_their_types_and_nothing_else_is_served(gateway: Gateway) -> None:
    script = gateway.anyone.get("/static-offline-docs/swagger-ui-bundle.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert len(script.content) > 1_000_000
    assert gateway.anyone.get("/static-offline-docs/favicon.png").headers["content-type"] == "image/png"
    assert gateway.anyone.get("/static-offline-docs/redoc.standalone.js").status_code == 404
    assert gateway.anyone.get("/docs/x").status_code == 404

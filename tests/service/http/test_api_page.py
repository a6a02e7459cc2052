"""The page that describes the API."""

from __future__ import annotations

from inprocess_kit import Gateway


def test_files_of_the_page_have_their_types_and_nothing_else_is_served(gateway: Gateway) -> None:
    script = gateway.anyone.get("/static-offline-docs/swagger-ui-bundle.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert len(script.content) > 1_000_000
    assert gateway.anyone.get("/static-offline-docs/favicon.png").headers["content-type"] == "image/png"
    assert gateway.anyone.get("/static-offline-docs/redoc.standalone.js").status_code == 404
    assert gateway.anyone.get("/docs/x").status_code == 404

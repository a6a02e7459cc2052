"""The description of the API and the page that shows it. They need no key, so each is made once and kept."""

from functools import cache
from pathlib import Path

import fastapi_offline
import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html

DESCRIPTION_PATH = "/openapi.json"
PAGE_PATH = "/docs"
_FILES_PATH = "/static-offline-docs"
_FILES = Path(fastapi_offline.__file__).parent / "static"  # the page loads nothing from elsewhere
_SCRIPT, _STYLE, _ICON = "swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"
_MEDIA_TYPES = {_SCRIPT: "text/javascript", _STYLE: "text/css", _ICON: "image/png"}


def add_api_page(app: FastAPI) -> None:
    """Add the routes. The description is made at the first request of it, and later routes are not in it."""

    @cache
    def description() -> bytes:
        return orjson.dumps(app.openapi())

    page = get_swagger_ui_html(
        openapi_url=DESCRIPTION_PATH,
        title=app.title,
        swagger_js_url=f"{_FILES_PATH}/{_SCRIPT}",
        swagger_css_url=f"{_FILES_PATH}/{_STYLE}",
        swagger_favicon_url=f"{_FILES_PATH}/{_ICON}",
    ).body

    async def answer_description(_: Request) -> Response:
        return Response(description(), media_type="application/json")

    async def answer_page(_: Request) -> Response:
        return Response(page, media_type="text/html")

    app.add_route(DESCRIPTION_PATH, answer_description, include_in_schema=False)
    app.add_route(PAGE_PATH, answer_page, include_in_schema=False)
    for name in _MEDIA_TYPES:
        app.add_route(f"{_FILES_PATH}/{name}", _answer_file, include_in_schema=False)


async def _answer_file(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    return Response(_content(name), media_type=_MEDIA_TYPES[name])


@cache
def _content(name: str) -> bytes:
    return (_FILES / name).read_bytes()

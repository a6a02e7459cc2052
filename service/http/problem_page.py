"""The page that the `type` of each problem leads to: what the code means, and what to do next."""

from collections.abc import Iterator
from functools import cache
from html import escape

from fastapi import FastAPI, Request, Response

from core import errors
from service.http.problems import PROBLEMS_PATH, plain_statuses, status_of_code


def add_problem_page(app: FastAPI) -> None:
    """Add the route. The page needs no key."""

    async def answer(_: Request) -> Response:
        return Response(_page(), media_type="text/html")

    app.add_route(PROBLEMS_PATH, answer, include_in_schema=False)


@cache
def _page() -> str:
    rows = [
        f'<section id="{code}"><h2>{code}</h2><p>Status {status}. {escape(meaning)}</p></section>'
        for code, (status, meaning) in sorted(_codes().items())
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Problems</title></head><body><main>'
        "<h1>Problems</h1><p>What each error means. The errors of the members of a request name the member and what is "
        f"permitted, and <code>request_id</code> finds the request in the logs.</p>{''.join(rows)}</main></body></html>"
    )


def _codes() -> dict[str, tuple[int, str]]:
    """Status and meaning of every code."""
    found = dict(plain_statuses())
    for kind in _kinds(errors.GatewayError):
        for code, title in {kind.code: kind.title, **kind.further_codes}.items():
            found[code] = (status_of_code(kind, code), title)
    return found


def _kinds(kind: type[errors.GatewayError]) -> Iterator[type[errors.GatewayError]]:
    for each in kind.__subclasses__():
        yield from _kinds(each)
    yield kind

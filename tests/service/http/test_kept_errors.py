"""An answered error keeps nothing of its request."""

import asyncio

from kept_kit import Request, assert_lets_go
from starlette.requests import Request as HttpRequest

from core.errors import InvalidInput
from service.http.problems import on_gateway_error


def test_an_error_that_its_frame_refers_to_lets_go_of_the_request() -> None:
    async def call(request: Request) -> None:
        refused = InvalidInput("Refused.")
        try:
            assert request
            raise refused
        except InvalidInput as error:
            await on_gateway_error(HttpRequest({"type": "http"}), error)
        raise KeyError

    asyncio.run(assert_lets_go(call, KeyError))

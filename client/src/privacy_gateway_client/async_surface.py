"""From an operation to a method of the asynchronous client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import ParamSpec, TypeVar

from privacy_gateway_client.async_driver import AsyncDriver
from privacy_gateway_client.surface import Emits, Method, Operation

P = ParamSpec("P")
T = TypeVar("T")


def awaiting(operation: Operation[P, T]) -> Method[P, Awaitable[T]]:
    """A method that returns a coroutine."""
    return Method(operation, AsyncDriver.run)


def listing_async(operation: Operation[P, None], _: Emits[T]) -> Method[P, AsyncIterator[T]]:
    """As `listing`, for `async for`."""
    return Method(operation, AsyncDriver.iterate)

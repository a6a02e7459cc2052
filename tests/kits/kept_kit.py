"""Whether a call keeps its arguments alive after it has ended."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest


class Request:
    """Stands for what a tenant sends."""


async def assert_lets_go(call: Callable[[Request], Awaitable[Any]], error: type[Exception]) -> None:
    """Assert that a call, which raises `error`, leaves no reference cycle with its argument. Such a cycle would keep a
    request in memory until the next collection, which may be minutes away."""
    request = Request()
    known = weakref.ref(request)
    gc.disable()
    try:
        try:
            await call(request)
        except error:
            pass
        else:
            pytest.fail("the call raised no error")
        del request
        for _ in range(500):  # another thread may still be about to let go of it
            if known() is None:
                break
            await asyncio.sleep(0.01)
        assert known() is None
    finally:
        gc.enable()

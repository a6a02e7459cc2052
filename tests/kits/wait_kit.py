"""Waits whose limit is generous, so that a loaded machine fails no test."""

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], what: str = "it did not happen", *, within_s: float = 300.0) -> Any:
    """What `condition` returns, once that is true."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(what)

"""A browser for the tests of pages."""

from collections.abc import Iterator

import pytest
from browser_kit import Browser, running_browser


@pytest.fixture(scope="module")
def browser(processes: None) -> Iterator[Browser]:
    """For one file, because no event loop can run in this thread meanwhile."""
    with running_browser() as running:
        yield running

"""Writes the blocking client from the asynchronous one, by unasync.

`make client` writes `generated/` of the client's package, and a test fails where it is not current. unasync removes
`async` and `await`, and replaces names: its own, such as `__aenter__` and `AsyncIterator`, and those of `NAMES`.
"""

from __future__ import annotations

from pathlib import Path

from unasync import Rule, unasync_files

PACKAGE = Path(__file__).parents[2] / "client/src/privacy_gateway_client"
SOURCE, GENERATED = PACKAGE / "asynchronous", PACKAGE / "generated"

# the name in the asynchronous client, and in the blocking one
NAMES = {
    "asynchronous": "generated",
    "AsyncGateway": "Gateway",
    # of httpx
    "AsyncClient": "Client",
    "async_transport": "transport",
    "aread": "read",
    "aiter_lines": "iter_lines",
    "aclose": "close",
    # of contextlib
    "aclosing": "closing",
    # of wire.py
    "AsyncFunction": "Function",
    "async_body": "body",
    "async_gather": "gather",
    "async_in_thread": "in_thread",
    "async_sleep": "sleep",
}


def write(folder: Path) -> None:
    """Write the blocking client into a folder, in place of the modules that it has."""
    for path in folder.glob("*.py"):
        path.unlink()
    sources = sorted(SOURCE.glob("*.py"))
    unasync_files([str(path) for path in sources], [Rule(str(SOURCE), str(folder), NAMES)])
    for path in sources:
        made = folder / path.name
        made.write_text(f"# Written by `make client` from asynchronous/{path.name}. Do not edit.\n{made.read_text()}")


if __name__ == "__main__":
    write(GENERATED)

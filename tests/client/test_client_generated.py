"""The blocking client is the one that unasync writes from the asynchronous client."""

from __future__ import annotations

from pathlib import Path

from generated_client import GENERATED, write


def test_the_blocking_client_is_current(tmp_path: Path) -> None:
    write(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in GENERATED.glob("*.py")}, "run `make client`"

"""The blocking client is the one that unasync writes from the asynchronous client, and the models are those of the
OpenAPI document."""

from __future__ import annotations

from pathlib import Path

from generated_client import GENERATED, write
from inprocess_kit import Gateway


def test_what_is_generated_is_current(tmp_path: Path, gateway: Gateway) -> None:
    write(tmp_path, gateway.app.openapi())
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_text() for path in GENERATED.glob("*.py")}, "run `make client`"

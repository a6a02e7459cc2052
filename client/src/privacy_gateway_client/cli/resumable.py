"""Work that continues where it ended: parts of the output beside it, and keys that follow from what is asked.

Guarantee: the same command on the same file buys each part once. A part that arrived is in the folder `OUT.parts`
and is not asked for again; a part that was paid and did not arrive is asked for under the same idempotency key, and
the gateway returns it without a charge while it keeps the answer. The folder holds what the gateway released, no
input, and is removed when the output is complete.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privacy_gateway_client.cli.inputs import UsageError


class Parts:
    """The parts of one output. `asked`: what determines them; `name`: as the user's `--name`, part of the keys only."""

    def __init__(self, out: Path, asked: Mapping[str, Any], *, api_key: str, name: str) -> None:
        self._folder = out.with_name(out.name + ".parts")
        described = json.dumps(asked, sort_keys=True)
        self._secret = hashlib.sha256(f"{api_key}|{name}|{described}".encode()).digest()
        self._asked = hashlib.sha256(f"{api_key}|{described}".encode()).hexdigest()
        self._out = out

    def open(self) -> None:
        """Raises UsageError if the folder belongs to another command."""
        if self._out.exists():
            raise UsageError(f"{self._out.name} exists; remove it to make it anew")
        self._folder.mkdir(parents=True, exist_ok=True)
        mark = self._folder / "asked"
        if mark.exists() and mark.read_text() != self._asked:
            raise UsageError(f"{self._folder.name} is of another file or of other parameters; remove it to start over")
        mark.write_text(self._asked)

    def key(self, start: int) -> str:
        """The idempotency key of the part that starts at an input."""
        return hmac.digest(self._secret, str(start).encode(), "sha256").hex()

    def has(self, start: int) -> bool:
        return self._path(start).exists()

    def read(self, start: int) -> bytes:
        return self._path(start).read_bytes()

    def write(self, start: int, content: bytes) -> None:
        """A part is there as a whole or not at all."""
        _write_whole(self._path(start), content)

    def finish(self, content: bytes) -> None:
        _write_whole(self._out, content)
        shutil.rmtree(self._folder)

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:09}"


def _write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(path.name + ".draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)

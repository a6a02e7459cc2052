"""`embed` and `sanitize`."""

from __future__ import annotations

import argparse
import contextvars
import hashlib
import hmac
import json
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from privacy_gateway_client import Gateway
from privacy_gateway_client.cli.inputs import UsageError, digest, documents
from privacy_gateway_client.progress import meter
from privacy_gateway_client.results import Embeddings
from privacy_gateway_client.tensors import Tensor, written
from privacy_gateway_client.wire import given

_AT_ONCE = 4  # parts in work
_PART = 64  # documents of a part: a command that is killed asks for this many again


class Parts:
    """The parts of one output. `asked`: what determines them; `name`: as the user's `--name`, part of the keys only.

    Guarantee: the same command on the same file buys each part once. A part that arrived is in the folder `OUT.parts`
    and is not asked for again; a part that was paid and did not arrive is asked for under the same idempotency key, and
    the gateway returns it without a charge while it keeps the answer. The folder holds what the gateway released, no
    input, and is removed when the output is complete.
    """

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


def embed(client: Gateway, given_args: argparse.Namespace, api_key: str) -> None:
    """Embed the documents of a file into a safetensors file: `embeddings` `[n, dimension]`, and the releases."""
    path, out = Path(given_args.file), Path(given_args.out)
    rows = documents(path)
    options = given(
        {name: getattr(given_args, name) for name in ("mechanism", "domain", "subject", "segmentation")}
        | {"epsilon": given_args.epsilon}
    )
    asked = {"command": "embed", "file": digest(path), "url": given_args.url, **options}
    parts = Parts(out, asked, api_key=api_key, name=given_args.name)

    def part(start: int) -> bytes:
        result: Embeddings = client.embed_documents(
            rows[start : start + _PART], idempotency_key=parts.key(start), **options
        )
        return _file(result, start)

    starts = _made(parts, len(rows), part)
    tensors = [Tensor(parts.read(start), "embeddings") for start in starts]
    releases = [release for tensor in tensors for release in json.loads(tensor.metadata["releases"])]
    shape = (len(rows), tensors[0].shape[1])
    numbers = b"".join(bytes(tensor.numbers) for tensor in tensors)
    ids = json.dumps([row.get("id") for row in rows])
    parts.finish(written("embeddings", "F32", shape, numbers, releases=json.dumps(releases), ids=ids))


def _file(result: Embeddings, offset: int) -> bytes:
    releases = [
        {
            "inputs": [offset + release.inputs[0], offset + release.inputs[-1] + 1],
            "privacy": release.privacy.model_dump(exclude_unset=True),
        }
        for release in result.releases
    ]
    vectors: Any = result.vectors
    numbers = vectors.tobytes() if hasattr(vectors, "tobytes") else b"".join(row.tobytes() for row in vectors)
    shape = (len(result.rows), result.dimension)
    return written("embeddings", "F32", shape, numbers, releases=json.dumps(releases))


def sanitize(client: Gateway, given_args: argparse.Namespace, api_key: str) -> None:
    """Sanitise the documents of a file into JSON lines, one for each document."""
    path, out = Path(given_args.file), Path(given_args.out)
    rows = documents(path)
    fill = given({"mode": given_args.fill, "epsilon": given_args.epsilon})
    mask = given({"techniques": given_args.technique, "entities": given_args.entity, "profile": given_args.profile})
    options: dict[str, Any] = {name: one for name, one in (("fill", fill), ("mask", mask)) if one}
    options |= given({"policy": given_args.policy})
    asked = {"command": "sanitize", "file": digest(path), "url": given_args.url, **options}
    parts = Parts(out, asked, api_key=api_key, name=given_args.name)

    def part(start: int) -> bytes:
        result = client.sanitize(rows[start : start + _PART], idempotency_key=parts.key(start), **options)
        lines = []
        for row in result.rows:
            members = row.model_dump(exclude_none=True) | {"index": start + row.index}
            lines.append(json.dumps(members, ensure_ascii=False).encode() + b"\n")
        return b"".join(lines)

    starts = _made(parts, len(rows), part)
    parts.finish(b"".join(parts.read(start) for start in starts))


def _made(parts: Parts, count: int, make: Callable[[int], bytes]) -> list[int]:
    """Make the parts that are missing, some at a time. After an error no further part begins."""
    parts.open()
    starts = list(range(0, count, _PART))
    draw, close = meter(count)
    stopped = threading.Event()

    def one(start: int) -> None:
        if parts.has(start) or stopped.is_set():
            return
        try:
            parts.write(start, make(start))
        except BaseException:
            stopped.set()
            raise

    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            waiting = [pool.submit(contextvars.copy_context().run, one, start) for start in starts]
            try:
                for start, each in zip(starts, waiting, strict=True):
                    each.result()
                    draw(min(start + _PART, count), "documents")
            finally:
                stopped.set()
    finally:
        close()
    return starts

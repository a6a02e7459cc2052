"""An encrypted cache of paid answers in a file, so that the same content is not bought twice.

Guarantee: without the cache's key, the file shows the number and sizes of its entries and nothing of their content.
The name of an entry is a keyed hash (HMAC-SHA-256) of the tenant, the models, the parameters and the content; an entry
is encrypted by AES-256-GCM and bound to its name. Texts are in no entry: it holds what the gateway released. Several
processes may use one file.

An answer from the cache is the one that was bought: equal contents get equal answers, so whoever sees two answers
sees that their contents are equal. That is public wherever the cache is used.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from privacy_gateway_client.errors import CacheUnusable

T = TypeVar("T")
_CHECK = b"privacy-gateway-client cache 1"
_NONCE = 12
_LOCKED_S = 30.0
_NAMES_IN_QUERY = 500


def new_cache_key(path: str | os.PathLike[str]) -> bytes:
    """The key in the file at `path`, which is made (mode 0600) if it does not exist: 32 bytes as hex digits."""
    file = Path(path)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return bytes.fromhex(file.read_text().strip())
    key = secrets.token_bytes(32)
    with os.fdopen(descriptor, "w") as made:
        made.write(key.hex())
    return key


class Cache:
    """The cache in the file at `path`. `key`: 32 bytes, which the caller keeps (see `new_cache_key`).

    Needs the extra `cache`. Raises CacheUnusable if the file was written under another key or is no cache.
    """

    def __init__(self, path: str | os.PathLike[str], key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if len(key) != 32:
            raise ValueError("the key of a cache has 32 bytes")
        self._names = hmac.digest(key, b"names", "sha256")
        self._cipher = AESGCM(hmac.digest(key, b"entries", "sha256"))
        self._lock = threading.Lock()
        self._path = Path(path)
        _make_private(self._path)
        unusable = False
        try:
            self._file = _patient(lambda: _opened(self._path))
            self._check_key()
        except sqlite3.DatabaseError:
            unusable = True
        if unusable:
            raise CacheUnusable("the file is not a cache")

    def name(self, scope: Mapping[str, Any], content: bytes) -> bytes:
        """The name of the entry for `content` under `scope`: tenant, models and parameters."""
        described = json.dumps(scope, sort_keys=True, separators=(",", ":")).encode()
        digest = hmac.new(self._names, len(described).to_bytes(8, "big"), hashlib.sha256)
        digest.update(described)
        digest.update(content)
        return digest.digest()

    def get(self, names: Iterable[bytes]) -> dict[bytes, bytes]:
        """The entries that exist. An entry that was changed outside is left out."""
        wanted = list(dict.fromkeys(names))
        found: dict[bytes, bytes] = {}
        for start in range(0, len(wanted), _NAMES_IN_QUERY):
            part = wanted[start : start + _NAMES_IN_QUERY]
            places = ",".join("?" * len(part))
            rows = self._run(
                lambda part=part, places=places: self._file.execute(  # type: ignore[misc]
                    f"SELECT name, entry FROM entries WHERE name IN ({places})",  # noqa: S608 - question marks alone
                    part,
                ).fetchall()
            )
            for name, entry in rows:
                plain = self._decrypted(name, entry)
                if plain is not None:
                    found[name] = plain
        return found

    def put(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        """Add entries. One that exists is kept: the first answer stays the answer."""
        rows = [(name, self._encrypted(name, entry)) for name, entry in entries]

        def write() -> None:
            with self._file:
                self._file.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", rows)

        self._run(write)

    def clear(self) -> None:
        """Remove every entry."""

        def remove() -> None:
            with self._file:
                self._file.execute("DELETE FROM entries WHERE name != ?", (self._check_name,))

        self._run(remove)

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _run(self, act: Callable[[], T]) -> T:
        with self._lock:
            return _patient(act)

    @property
    def _check_name(self) -> bytes:
        return b"check"

    def _check_key(self) -> None:
        self.put([(self._check_name, _CHECK)])
        if self.get([self._check_name]).get(self._check_name) != _CHECK:
            self._file.close()
            raise CacheUnusable("the cache was written under another key")

    def _encrypted(self, name: bytes, entry: bytes) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._cipher.encrypt(nonce, entry, name)

    def _decrypted(self, name: bytes, entry: bytes) -> bytes | None:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(entry[:_NONCE], entry[_NONCE:], name)
        except InvalidTag:
            return None


def _opened(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path, timeout=_LOCKED_S, check_same_thread=False)
    try:
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("PRAGMA synchronous=FULL")
        with file:
            file.execute("CREATE TABLE IF NOT EXISTS entries (name BLOB PRIMARY KEY, entry BLOB) WITHOUT ROWID")
    except BaseException:
        file.close()
        raise
    return file


def _patient(act: Callable[[], T]) -> T:
    """Try again while another process holds the file: the change to WAL does not wait by itself."""
    until = time.monotonic() + _LOCKED_S
    while True:
        try:
            return act()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise
            if time.monotonic() > until:
                raise
        time.sleep(0.02)


def _make_private(path: Path) -> None:
    """Create the file with mode 0600, which SQLite's own files beside it take over."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))

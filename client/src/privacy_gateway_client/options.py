"""What a caller may set: the settings of a client, the keyword arguments of its calls, the cache and the cap.

The arguments of a call are the members of its request that a caller may leave out. An annotation lists the words that
one permits, or names its members. A test compares them with the OpenAPI document. `inputs.checked` refuses other names
and words; the gateway checks all other values.

`Cache` is an encrypted cache of paid answers in a file, so that the same content is not bought twice. Guarantee:
without the cache's key, the file shows the number and sizes of its entries and nothing of their content. The name of an
entry is a keyed hash (HMAC-SHA-256) of the tenant, the models, the parameters and the content; an entry is encrypted by
AES-256-GCM and bound to its name. Texts are in no entry: it holds what the gateway released. Several processes may use
one file. An answer from the cache is the one that was bought: equal contents get equal answers, so whoever sees two
answers sees that their contents are equal. That is public wherever the cache is used.

`BudgetCap` is a local limit on what the calls of a block may charge, checked before anything is sent. A cap bounds the
epsilon of each unit (sentence, token, vector, record) separately: the largest of them is what the block may have cost
any account. The price is that of `POST /budget/estimate` for one document of the same request without its text, asked
once for each kind of request. A reservation whose request charged nothing is given back; one whose answer was lost
counts as spent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, TypeVar

import httpx
from typing_extensions import TypedDict

from privacy_gateway_client.errors import BudgetCapReached, CacheUnusable
from privacy_gateway_client.wire import VISIBLE

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


Nano = Mapping[str, int]
_NANO = 1_000_000_000


def nano(epsilon: float) -> int:
    return round(epsilon * _NANO)


class BudgetCap:
    """A context manager. It applies to the calls of its block, in this thread or task and those that the block's own
    calls start. Caps may be nested: each of them bounds the calls inside it. One cap may be entered by several threads
    or tasks, which then share it."""

    def __init__(self, epsilon: float) -> None:
        if not epsilon >= 0:
            raise ValueError("a cap is a number, at least 0")
        self._limit = nano(epsilon)
        self._spent: dict[str, int] = {}
        self._lock = threading.Lock()
        self._tokens: ContextVar[tuple[Token[tuple[BudgetCap, ...]], ...]] = ContextVar("tokens", default=())

    @property
    def spent(self) -> float:
        """The largest epsilon of any unit that was charged or may have been."""
        return max(self._spent.values(), default=0) / _NANO

    @property
    def remaining(self) -> float:
        return (self._limit - max(self._spent.values(), default=0)) / _NANO

    def take(self, costs: Nano) -> None:
        """Count `costs` as spent. Raises BudgetCapReached, and then counts nothing."""
        with self._lock:
            for unit, cost in costs.items():
                left = self._limit - self._spent.get(unit, 0)
                if cost > left:
                    raise BudgetCapReached(unit=unit, requested=cost / _NANO, remaining=left / _NANO)
            for unit, cost in costs.items():
                self._spent[unit] = self._spent.get(unit, 0) + cost

    def give_back(self, costs: Nano) -> None:
        with self._lock:
            for unit, cost in costs.items():
                self._spent[unit] -= cost

    def __enter__(self) -> BudgetCap:
        token = _active.set((*_active.get(), self))
        self._tokens.set((*self._tokens.get(), token))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        *rest, token = self._tokens.get()
        self._tokens.set(tuple(rest))
        _active.reset(token)


_active: ContextVar[tuple[BudgetCap, ...]] = ContextVar("privacy_gateway_client_caps", default=())


def active_caps() -> tuple[BudgetCap, ...]:
    """The caps of the present thread or task, the outermost first."""
    return _active.get()


class Reservation:
    """What a request may charge, taken from every cap."""

    def __init__(self, caps: tuple[BudgetCap, ...], costs: Nano) -> None:
        """Raises BudgetCapReached, and then nothing is taken."""
        self._caps, self._costs = caps, costs
        taken = []
        try:
            for cap in caps:
                cap.take(costs)
                taken.append(cap)
        except BudgetCapReached:
            for cap in taken:
                cap.give_back(costs)
            raise

    def cancel(self) -> None:
        """The request charged nothing."""
        for cap in self._caps:
            cap.give_back(self._costs)


_USER_AGENT = "privacy-gateway-client"
# longer than the gateway works on a request (REQUEST_TIMEOUT_S), since an early end would only repeat it
_TIMEOUT = httpx.Timeout(30.0, read=120.0)


@dataclass(frozen=True)
class Retry:
    """When a call is sent again.

    attempts: how often a request is sent, at most. Waiting for a request that is in work does not count.
    seconds_max: no attempt starts later than this after the first, in seconds.
    first_s, longest_s: the pauses double from `first_s` to `longest_s`, with jitter. `Retry-After` replaces them.
    """

    attempts: int = 8
    seconds_max: float = 300.0
    first_s: float = 0.5
    longest_s: float = 10.0

    def pause_s(self, number: int, retry_after_s: float | None) -> float:
        """The pause after the attempt with this number, which counts from 0."""
        if retry_after_s is not None:
            return retry_after_s
        longest = min(self.first_s * 2.0 ** min(number, 16), self.longest_s)
        return longest * (0.5 + random.random() / 2)  # noqa: S311 - spreads clients over time, protects nothing


@dataclass(frozen=True)
class Limits:
    """What one request may hold. Larger inputs are sent as several requests.

    The defaults are those of the gateway (docs/reference/settings.md).

    documents: of `embed_documents` and `sanitize`.
    vector_texts, vectors, codebook_vectors: of one call of `/embed/vector`.
    body_bytes: of a JSON body (BODY_BYTES_MAX).
    vectors_bytes: of a file of vectors.
    stored_bytes: of an answer that the gateway keeps for a repetition. The client sends
        vectors in parts whose answers are smaller, so that a lost answer can always be fetched again.
    job_json_bytes, job_json_rows: of a job as JSON; larger ones are sent as JSON lines.
    stream_documents, stream_bytes: of one stream of documents; the client sends several streams, one after another.
    concurrency: requests of one call at the same time.
    """

    documents: int = 256
    vector_texts: int = 2048
    vectors: int = 100_000
    codebook_vectors: int = 8192
    body_bytes: int = 8 << 20
    vectors_bytes: int = 256 << 20
    stored_bytes: int = 8 << 20
    job_json_bytes: int = 64 << 20
    job_json_rows: int = 100_000
    stream_documents: int = 64
    stream_bytes: int = 256 << 10
    concurrency: int = 4


class ClientSettings(TypedDict, total=False):
    """The settings of a client, all optional.

    retry: when a call is repeated. limits: what one request may hold. cache: of paid answers.
    tenant: the tenant's name, for the cache; asked from the gateway if it is not given.
    timeout: of httpx; the time without an answer must exceed the gateway's REQUEST_TIMEOUT_S.
    transport, async_transport: of httpx, for tests and own connections. verify: of httpx, for TLS.
    purpose, recipient: what the releases are for and who receives them, in place of what the API key says. The gateway
    keeps them in its journal: no personal data.
    """

    retry: Retry
    limits: Limits
    cache: Cache | None
    tenant: str | None
    timeout: httpx.Timeout | float
    transport: httpx.BaseTransport
    async_transport: httpx.AsyncBaseTransport
    verify: Any
    purpose: str
    recipient: str


def http_options(base_url: str, api_key: str, settings: ClientSettings) -> dict[str, Any]:
    """The arguments of httpx's client. Raises ValueError for an address or a key that no request can be sent with."""
    _check_address(base_url)
    if not api_key or not VISIBLE.fullmatch(api_key):
        raise ValueError(
            "the API key is empty, or has a line feed, a space or a letter beyond ASCII; read a key from a file by "
            "`Path(file).read_text().strip()`"
        )
    words = {"X-Purpose": settings.get("purpose", ""), "X-Recipient": settings.get("recipient", "")}
    if not all(text.isascii() and text.isprintable() for text in words.values()):
        raise ValueError("purpose and recipient are up to 64 of A-Z, a-z, 0-9, blank and ._:@/+-")
    concurrency = settings.get("limits", Limits()).concurrency
    return {
        "base_url": base_url,
        "headers": {"Authorization": f"Bearer {api_key}", "User-Agent": _USER_AGENT}
        | {name: text for name, text in words.items() if text},
        "timeout": settings.get("timeout", _TIMEOUT),
        "verify": settings.get("verify", True),
        "limits": httpx.Limits(max_connections=max(100, concurrency)),
        "follow_redirects": False,  # a redirect would carry the texts to another address
    }


def _check_address(base_url: str) -> None:
    problem = "is not a URL"
    with suppress(httpx.InvalidURL, TypeError):
        address = httpx.URL(base_url)
        if address.path.rstrip("/").endswith("/v1"):
            raise ValueError("the address ends with /v1, which is for the SDKs of OpenAI; pass it without /v1")
        if address.scheme in ("http", "https") and address.host:
            return
        problem = "has no scheme"
    raise ValueError(f"the address of the gateway {problem}; pass one such as http://127.0.0.1:8000")


class DocumentOptions(TypedDict, total=False):
    """The options of `embed_documents`; docs/concepts/sentence-privacy.md describes them."""

    mechanism: Annotated[str, ("sentence_codes", "clipped_cosine", "deep_candidate", "document_selection")]
    domain: str
    subject: str | None
    segmentation: Annotated[str, ("sentences", "words")]
    window_words: int
    normalize: bool


class VectorOptions(TypedDict, total=False):
    """The options of `embed_texts` and `embed_vectors`; docs/reference/vectors.md describes them."""

    mechanism: Annotated[str | None, ("privemb", "laplace", "privunit", "codebook")]
    dimension: int | None
    clip_norm: float | None
    projection: Annotated[str | None, ("orthonormal", "gaussian", "identity", "pca")]
    strict: bool
    beta: float | None
    delta: float | None
    subject: str | None


class MaskOptions(TypedDict, total=False):
    """The members of `mask`."""

    techniques: Annotated[list[str], ("entity", "vocabulary", "allow_list", "all")]
    entities: list[str] | None
    profile: str | None
    recognisers: list[str] | None
    vocabulary_size: int
    allow_list: str
    thresholds: Mapping[str, float] | None
    language: str
    unknown_language: Annotated[str, ("patterns", "refuse")]


class FillOptions(TypedDict, total=False):
    """The members of `fill`."""

    mode: Annotated[str, ("marker", "class_marker", "surrogate", "metric_dp", "top1", "topk", "dp")]
    epsilon: float | None
    mechanism: Annotated[str | None, ("exponential", "laplace")]
    k: int | None
    scope: Annotated[str | None, ("slot", "document")]
    model: str | None
    consistency: Annotated[str | None, ("document", "tenant")]


class StreamOptions(TypedDict, total=False):
    """The options of `sanitize_stream`; docs/reference/sanitize.md describes them."""

    policy: str | None
    mask: Annotated[Mapping[str, Any], MaskOptions]
    fill: Annotated[Mapping[str, Any], FillOptions]
    return_spans: bool
    dry_run: bool


class SanitizeOptions(StreamOptions, total=False):
    """The options of `sanitize`; docs/reference/sanitize.md describes them."""

    reversible: bool


class DomainOptions(TypedDict, total=False):
    """The options of `build_domain`."""

    source: str
    licence: str
    steps: int


class InfillOptions(TypedDict, total=False):
    """The options of `tune_infill`."""

    policy: str | None
    mask: Mapping[str, Any]
    fill: Mapping[str, Any]
    rounds: int
    steps: int


class EvaluationOptions(TypedDict, total=False):
    """The options of `evaluate`; docs/reference/evaluation.md describes them."""

    methods: Sequence[Mapping[str, Any]]
    epsilons: Sequence[float]
    repetitions: int
    tolerance: float
    releases: int


class SynthesisOptions(TypedDict, total=False):
    """The options of `synthesize`; docs/reference/synthesis.md describes them."""

    outside: Annotated[str, ("refuse", "clip")]
    subject: str | None
    design: Annotated[str | None, ("low_order", "gaussian")]
    frequencies: int | None
    steps: int | None
    bins: int | None


class FinetuneOptions(TypedDict, total=False):
    """The options of `finetune`; docs/reference/finetune.md describes them."""

    pairs: bool
    method: Annotated[str, ("head", "lora", "rgp", "full")]
    model: str
    sampling: Annotated[str, ("poisson", "random_allocation")]
    epochs: float | None
    steps: int | None
    rank: int
    pieces_max: int
    learning_rate: float | None
    weight_decay: float
    class_weights: Annotated[str, ("balanced", "none")]
    class_shares: list[float] | None
    subject: str | None


class ReleaseOptions(TypedDict, total=False):
    """The options of `release`; docs/guide/bulk-releases.md describes them. The columns are those of the source."""

    target: Mapping[str, Any]
    rows: Annotated[str, ("all", "fitting")]
    text_column: str
    id_column: str | None
    subject_column: str | None


class KeyOptions(TypedDict, total=False):
    """The options of the calls that make an API key."""

    roles: list[str] | None
    expires_s: int | None
    label: str
    purpose: str
    recipient: str


class TenantOptions(TypedDict, total=False):
    """The options of `create_tenant`."""

    delta: float
    basic_delta: float | None
    token: Mapping[str, Any] | None
    sentence: Mapping[str, Any] | None
    vector: Mapping[str, Any] | None
    record: Mapping[str, Any] | None
    plans: dict[str, float]
    subject_epsilon: float | None

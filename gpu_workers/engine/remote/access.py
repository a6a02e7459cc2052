"""Who may connect: a token that gateways and workers share, and mutual TLS.

A connection without TLS shows every text to the network, so it is accepted on this machine alone unless the operator
asks for it (`plain`).
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from gpu_workers.engine.remote.frames import GATEWAY, MESSAGE_BYTES_MAX, SCHEMA, TOKEN

KEEPALIVE_S = 10
KEEPALIVE_TIMEOUT_S = 5
_TLS_NAME = "privacy-gateway-worker"
_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.http2.max_frame_size", MESSAGE_BYTES_MAX),  # a message in one frame; by default 16 KB
    # a peer that is cut off without a word is noticed after both times
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_S * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),  # a batch is never sent twice
)
_CLIENT_OPTIONS: tuple[tuple[str, Any], ...] = (
    *_OPTIONS,
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 2000),
)
_SERVER_OPTIONS: tuple[tuple[str, Any], ...] = (
    *_OPTIONS,
    # a server that counted pings would end the connection, and with it the batches, of a gateway whose pings are late
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_S * 500),
    ("grpc.max_concurrent_streams", 64),
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True)
class Tls:
    """Files in PEM. Each side proves itself by a certificate of the authority in `ca`. A worker's certificate has the
    name `privacy-gateway-worker`, so that it may run on any machine, and no other certificate of the authority passes
    for it."""

    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class Access:
    """What one side of a connection has. `token`: at least 16 characters."""

    token: str = field(repr=False)
    tls: Tls | None = None
    plain: bool = False

    def __post_init__(self) -> None:
        if len(self.token) < 16 or not self.token.isascii():
            raise ValueError("the token of workers has at least 16 characters of ASCII")

    def check(self, address: str) -> None:
        """Raise ValueError for an address that text would reach without encryption."""
        if self.tls is None and not self.plain and not _is_local(address):
            raise ValueError(f"{address}: a worker on another machine needs TLS (WORKERS_TLS_CA and its files)")

    def metadata(self, *, gateway: str, schema: str) -> tuple[tuple[str, str], ...]:
        return ((TOKEN, self.token), (GATEWAY, gateway), (SCHEMA, schema))

    def admits(self, metadata: Any) -> bool:
        """Whether a call has the token."""
        given = str(dict(metadata or ()).get(TOKEN, ""))
        return hmac.compare_digest(given.encode(), self.token.encode())

    def channel(self, address: str) -> aio.Channel:
        """A channel to a worker. Raises ValueError as `check`, OSError for TLS files that cannot be read."""
        self.check(address)
        if self.tls is None:
            return aio.insecure_channel(address, options=_CLIENT_OPTIONS)
        credentials = grpc.ssl_channel_credentials(*self._files(self.tls))
        options = (*_CLIENT_OPTIONS, ("grpc.ssl_target_name_override", _TLS_NAME))
        return aio.secure_channel(address, credentials, options=options)

    def server(self, address: str, *, calls_max: int) -> tuple[aio.Server, int]:
        """A server that listens on `address`, and its port. Raises as `channel`, and OSError for an address that is
        taken."""
        self.check(address)
        server = aio.server(options=_SERVER_OPTIONS, maximum_concurrent_rpcs=calls_max)
        try:
            if self.tls is None:
                return server, server.add_insecure_port(address)
            ca, key, certificate = self._files(self.tls)
            credentials = grpc.ssl_server_credentials(
                [(key, certificate)], root_certificates=ca, require_client_auth=True
            )
            return server, server.add_secure_port(address, credentials)
        except RuntimeError:
            raise OSError(f"cannot listen on {address}") from None

    def guarded(self, method: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        """A method of a server that checks the token, and lets no exception reach the library, which would log it."""

        async def call(first: Any, context: Any) -> None:
            if not self.admits(context.invocation_metadata()):
                await context.abort(grpc.StatusCode.UNAUTHENTICATED)
            failed = False
            try:
                await method(first, context)
            except Exception:
                failed = True
            if failed:
                with suppress(aio.InternalError, aio.UsageError):  # the gateway has gone
                    await context.abort(grpc.StatusCode.INTERNAL)

        return call

    @staticmethod
    def _files(tls: Tls) -> tuple[bytes, bytes, bytes]:
        return tls.ca.read_bytes(), tls.key.read_bytes(), tls.certificate.read_bytes()


def _is_local(address: str) -> bool:
    host = address.rpartition(":")[0]
    return address.startswith("unix:") or host in ("127.0.0.1", "localhost", "[::1]")

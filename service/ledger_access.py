"""The ledger as the settings describe it, for the gateway and for commands beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.ledger.client import LedgerClient, connect
from core.ledger.embedded import attached
from core.ledger.keys import MasterKey
from core.ledger.keystore import KeyStore
from core.ledger.ledger import Ledger
from service.secrets import load_master_key
from service.settings import Settings


def build_client(settings: Settings, *, socket: Path | None) -> LedgerClient:
    """The connection to the embedded server's `socket`, or to `redis_url` when there is none. Nothing is sent yet."""
    return LedgerClient(
        connect(
            socket_path=socket,
            url=settings.redis_url if socket is None else None,
            timeout_s=settings.redis_timeout_s,
            max_connections=settings.redis_connections_max,
            max_commands=settings.redis_commands_max,
        )
    )


def build_ledger(settings: Settings, master_key: MasterKey, client: LedgerClient) -> tuple[Ledger, KeyStore]:
    """The ledger and the API keys over `client`, which they share."""
    ledger = Ledger(
        client,
        master_key,
        response_retention_ms=int(settings.response_retention_s * 1000),
        tombstone_ttl_ms=int(settings.tombstone_retention_s * 1000),
    )
    return ledger, KeyStore(client, master_key)


@asynccontextmanager
async def ledger_access(settings: Settings) -> AsyncIterator[tuple[Ledger, KeyStore]]:
    """The ledger for a short command: the running gateway's or the deployment's, else one started for the moment."""
    master_key = load_master_key(settings)
    if settings.redis_url is not None:
        async with _checked(settings, master_key, None) as parts:
            yield parts
        return
    async with (
        attached(settings.data_dir, redis_server=settings.redis_server) as socket,
        _checked(settings, master_key, socket) as parts,
    ):
        yield parts


@asynccontextmanager
async def _checked(
    settings: Settings, master_key: MasterKey, socket: Path | None
) -> AsyncIterator[tuple[Ledger, KeyStore]]:
    ledger, keys = build_ledger(settings, master_key, build_client(settings, socket=socket))
    try:
        await ledger.check()
        yield ledger, keys
    finally:
        await ledger.close()

"""Builds the ledger from the settings, for the gateway and for commands."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from core.blobs.options import opened_store
from core.blobs.store import BlobStore
from core.errors import LedgerUnavailable
from core.ledger.archive.archiver import KEEP_SEALS, Archiver
from core.ledger.archive.store import ArchiveStore, LedgerArchive, ledgers_in
from core.ledger.hash_chain.audit import LedgerAudit, audit_ledger, store_audit
from core.ledger.hash_chain.epoch import EpochStore
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.transitions import Ledger, TenantCaps
from core.master_key import MasterKey
from core.redis.client import Call, LedgerClient, check_configuration, connect
from core.redis.embedded import attached
from core.redis.identity import check_schema, refuse_store_of_another_ledger
from core.state.keystore import KeyStore
from service.config.reading import load_master_key
from service.config.settings import Settings

# API keys of a tenant, with those that ended within 30 days: a list of them is one answer.
KEYS_PER_TENANT_MAX = 256
# What a tenant that spends nothing may add to Redis; docs/operating/ledger.md has the sizes. Holds of jobs count, too.
HOLDS_PER_TENANT_MAX = 4096
JOB_RECORDS_PER_TENANT_MAX = 20_000  # ended or not, until JOB_RETENTION_S is over
# How long a key that the gateway generated is stored after its release ended: nobody else knows it, so nobody repeats
# it after a day. The ledger keeps it for RESPONSE_RETENTION_S at least and TOMBSTONE_RETENTION_S at most.
GENERATED_KEY_RETENTION_S = 86_400


@dataclass(frozen=True)
class LedgerParts:
    """The parts of the ledger. All but `trim_client`, which removes archived entries, share one connection pool."""

    client: LedgerClient
    master_key: MasterKey
    epoch_file: Path
    ledger: Ledger
    keys: KeyStore
    sealer: Sealer
    archive: LedgerArchive
    archiver: Archiver
    trim_client: LedgerClient
    blobs: BlobStore

    async def close(self) -> None:
        """Close the connections."""
        await self.ledger.close()
        await self.trim_client.close()


def build_ledger(settings: Settings, master_key: MasterKey, *, socket: Path | None) -> LedgerParts:
    """The ledger, over the embedded server's `socket`, or over `redis_url` without one. Does not connect yet."""
    client = _client(settings, socket, settings.redis_url)
    epoch_file = settings.epoch_file or settings.data_dir / "ledger.epoch"
    blobs = opened_store(settings, settings.data_dir)
    archive = LedgerArchive(client, master_key, blobs)
    # The default store is a folder beside the epoch file, which shows nothing more.
    shared = EpochStore(blobs, master_key) if settings.store_url else None
    repeat_after = KEEP_SEALS // 2 if archives(settings) else None  # old seals are removed then
    sealer = Sealer(
        client, master_key, epoch_file, epoch_store=shared, continues=archive.continues, repeat_after=repeat_after
    )

    async def guard(call: Call) -> None:
        # A new connection may lead to another server, or to the same one with an older file or weaker settings.
        await check_configuration(call)
        await check_schema(call)
        await sealer.verify_connection(call)

    client.guard_connections(guard)
    trim_url = settings.archive_redis_url
    trim_client = _client(settings, socket, trim_url.get_secret_value() if trim_url else settings.redis_url)
    trim_client.guard_connections(guard)
    ledger = Ledger(
        client,
        master_key,
        archive=archive,
        response_retention_ms=int(settings.response_retention_s * 1000),
        tombstone_ttl_ms=int(settings.tombstone_retention_s * 1000),
        generated_ttl_ms=GENERATED_KEY_RETENTION_S * 1000,
        caps=tenant_caps(settings),
    )
    keys = KeyStore(client, master_key, keys_max=KEYS_PER_TENANT_MAX)
    archiver = Archiver(
        client, master_key, sealer, archive, trim_client=trim_client, keep_entries=settings.archive_keep_entries
    )
    return LedgerParts(client, master_key, epoch_file, ledger, keys, sealer, archive, archiver, trim_client, blobs)


def _client(settings: Settings, socket: Path | None, url: str | None) -> LedgerClient:
    return LedgerClient(
        connect(socket_path=socket, url=url if socket is None else None, timeout_s=settings.redis_timeout_s)
    )


def archives(settings: Settings) -> bool:
    """Whether a gateway archives by itself."""
    return settings.archive == "on"


def tenant_caps(settings: Settings) -> TenantCaps:
    """What one tenant may keep in Redis without spending epsilon."""
    return TenantCaps(
        holds_max=HOLDS_PER_TENANT_MAX,
        uncharged_per_hour_max=settings.uncharged_holds_per_hour_max,
        stored_bytes_max=settings.stored_bytes_per_tenant_max,
        jobs_max=JOB_RECORDS_PER_TENANT_MAX,
    )


async def audit_and_store(parts: LedgerParts) -> LedgerAudit:
    """The audit, which the gateway then shows as the last one. A Redis that takes no write is audited all the same."""
    report = await audit_ledger(parts.client, parts.master_key, parts.epoch_file, archive=parts.archive)
    with suppress(LedgerUnavailable):
        await store_audit(parts.client, parts.master_key, report)
    return report


@asynccontextmanager
async def prepared_ledger(settings: Settings, master_key: MasterKey, socket: Path) -> AsyncIterator[LedgerParts]:
    """The ledger of an embedded server that this process owns, with its seals checked."""
    async with checked_ledger(settings, master_key, socket, trusted=True) as parts:
        yield parts


async def archive_of(settings: Settings, ledger: str | None) -> ArchiveStore:
    """The archive in the blob store, by the id of its ledger, or the only one. Raises LedgerUnavailable."""
    blobs = opened_store(settings, settings.data_dir)
    found = [ledger] if ledger else await ledgers_in(blobs)
    if len(found) != 1:
        detail = f"name one with --ledger: {', '.join(found)}" if found else "there is none"
        raise LedgerUnavailable(f"The blob store has archives of {len(found)} ledgers; {detail}.")
    return ArchiveStore(blobs, load_master_key(settings), found[0])


@asynccontextmanager
async def checked_ledger(
    settings: Settings, master_key: MasterKey, socket: Path | None, *, trusted: bool
) -> AsyncIterator[LedgerParts]:
    """The ledger, checked. With `trusted`, one that does not match its seals is refused."""
    parts = build_ledger(settings, master_key, socket=socket)
    try:
        if trusted:
            await check_ledger(parts)
        else:
            await parts.ledger.check()
        yield parts
    finally:
        await parts.close()


async def check_ledger(parts: LedgerParts) -> None:
    """Refuse a ledger that does not match its seals, has another schema, or whose store belongs to another ledger.

    Raises LedgerNotTrusted, LedgerUnavailable, StoreUnavailable.
    """
    await parts.ledger.check()
    await parts.sealer.check()
    await refuse_store_of_another_ledger(parts.client, parts.blobs)


@asynccontextmanager
async def ledger_access(settings: Settings, *, trusted: bool = True) -> AsyncIterator[LedgerParts]:
    """The ledger for a short command: of the running gateway or the deployment, or a server started for the command.

    With `trusted`, a ledger that does not match its seals is refused. Commands that inspect such a ledger pass False.
    """
    master_key = load_master_key(settings)
    async with _socket(settings) as socket, checked_ledger(settings, master_key, socket, trusted=trusted) as parts:
        yield parts


@asynccontextmanager
async def _socket(settings: Settings) -> AsyncIterator[Path | None]:
    """The socket of the embedded server; None for a server at `redis_url`."""
    if settings.redis_url is not None:
        yield None
        return
    async with attached(settings.data_dir, redis_server=settings.redis_server) as socket:
        yield socket

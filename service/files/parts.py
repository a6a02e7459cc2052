"""The files of a gateway, by the settings."""

from dataclasses import dataclass
from pathlib import Path

from core.master_key import MasterKey
from core.redis.client import LedgerClient
from core.redis.identity import check_store
from core.state.stored_files import StoredFileIndex
from service.config.settings import Settings, opened_store
from service.files.copies import IN_USE_S, LocalCopies
from service.files.stored import StoredFiles


@dataclass(frozen=True)
class OwnDirectory:
    """The folder for the files of this process alone, where others use the data directory, too."""

    path: Path


def stored_files(
    settings: Settings, client: LedgerClient, master_key: MasterKey, *, own_dir: Path | None = None
) -> StoredFiles:
    """`own_dir`: where local copies are, instead of the data directory. Opens no connection."""
    copies = LocalCopies(
        own_dir or settings.data_dir,
        bytes_max=settings.store_cache_bytes_max,
        free_bytes_min=settings.disk_free_bytes_min,
        in_use_s=max(IN_USE_S, 3 * settings.request_timeout_s),  # the wait for a worker, and two batches
    )
    index = StoredFileIndex(client, bytes_max=settings.tenant_disk_bytes_max)
    return StoredFiles(copies, opened_store(settings, settings.data_dir), index, master_key)


async def open_files(client: LedgerClient, files: StoredFiles, *, alone: bool) -> None:
    """Check the store, and refuse one that is not the ledger's.

    `alone`: this is the one gateway that can use the ledger, so its store becomes the ledger's.
    Raises StoreUnavailable, LedgerUnavailable.
    """
    await files.store.check()
    await check_store(client, files.store, alone=alone)

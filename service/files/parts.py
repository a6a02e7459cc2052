"""The files of a gateway or of a command, by the settings."""

from __future__ import annotations

from pathlib import Path

from core.ledger.client import LedgerClient
from core.ledger.keys import MasterKey
from core.ledger.stored_files import StoredFileIndex
from service.config.settings import Settings
from service.config.storage import opened_store
from service.files.stored import StoredFiles


def stored_files(
    settings: Settings, client: LedgerClient, master_key: MasterKey, *, own_dir: Path | None = None
) -> StoredFiles:
    """`own_dir`: where local copies are, instead of the data directory. Opens no connection."""
    return StoredFiles(
        own_dir or settings.data_dir,
        opened_store(settings, settings.data_dir),
        StoredFileIndex(client, bytes_max=settings.tenant_disk_bytes_max),
        master_key,
        cache_bytes_max=settings.store_cache_bytes_max,
    )

"""The files of a gateway or of a command, by the settings."""

from __future__ import annotations

from pathlib import Path

from core.ledger.client import LedgerClient
from core.ledger.keys import MasterKey
from core.ledger.stored_files import StoredFileIndex
from service.config.settings import Settings
from service.config.storage import opened_store
from service.files.stored import DRAFTS_OF, StoredFiles


def stored_files(
    settings: Settings, client: LedgerClient, master_key: MasterKey, *, own_dir: Path | None = None
) -> StoredFiles:
    """`own_dir`: that of a process that shares the data directory. Opens no connection."""
    drafts = "" if own_dir is None or own_dir == settings.data_dir else f"{DRAFTS_OF}{own_dir.name}"
    return StoredFiles(
        settings.data_dir,
        opened_store(settings, settings.data_dir),
        StoredFileIndex(client, bytes_max=settings.tenant_disk_bytes_max),
        master_key,
        cache_bytes_max=settings.store_cache_bytes_max,
        drafts=drafts,
    )

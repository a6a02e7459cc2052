"""Language models that a tenant has fine-tuned by `POST /jobs/infill`. Models of other tenants are not visible.

They are in the blob store (`service.files.stored`), so every gateway finds them. Names are looked up at each request,
so that what a job stores can be used at once.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from core.blob_errors import BlobCorrupt, BlobMissing
from core.errors import InvalidInput, StorageFull, UnknownModel
from core.files.disk import FileVersion
from core.ledger.stored_files import MODELS
from service.config.data_dir import NAME, check_name
from service.files.stored import StoredFiles

_FACTS = ("documents", "rounds", "steps")


class TunedModels:
    """The tenants' models, as one gateway sees them."""

    def __init__(self, files: StoredFiles) -> None:
        self._files = files

    async def find(self, tenant: str, name: str) -> FileVersion:
        """The model with this name. Raises InvalidInput if the tenant has none; BlobMissing, BlobCorrupt,
        StoreUnavailable, StorageFull, LedgerUnavailable."""
        file = await self._files.find(tenant, MODELS, name) if re.fullmatch(NAME, name) else None
        if file is None:
            raise InvalidInput("no such model; GET /models lists your own", field="fill.model")
        return file

    async def of_tenant(self, tenant: str) -> list[dict[str, Any]]:
        """The tenant's models with their facts. A file that cannot be used now has its name only."""
        rows = []
        for name, entry in sorted((await self._files.index.of_owner(tenant, MODELS)).items()):
            try:
                file = await self._files.local(tenant, MODELS, name, entry)
            except (BlobMissing, BlobCorrupt, StorageFull):
                file = None
            rows.append({"name": name, **await asyncio.to_thread(_facts, file)})
        return rows

    async def remove(self, tenant: str, name: str) -> None:
        """Delete a model and its card. Raises UnknownModel."""
        if not await self._files.remove(tenant, MODELS, check_name(name)):
            raise UnknownModel


def _facts(file: FileVersion | None) -> dict[str, Any]:
    """The facts in the file's header. A worker checks the weights before it uses them."""
    try:
        if file is None:
            return {"usable": False}
        with safe_open(Path(file.path), framework="numpy") as opened:
            info = json.loads((opened.metadata() or {})["info"])
        return {"usable": True, **{name: int(info[name]) for name in _FACTS}}
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return {"usable": False}

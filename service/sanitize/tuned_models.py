"""Language models that a tenant has fine-tuned by `POST /jobs/infill`. Models of other tenants are not visible.

    <data_dir>/infill/tenants/<tenant>/<name>.safetensors

Files are looked up at each request, so that what a job writes can be used at once.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from core.errors import InvalidInput, UnknownModel
from core.files.file_version import FileVersion, file_version
from service.config.data_dir import NAME, check_name, owner_folder

_FACTS = ("documents", "rounds", "steps")


def model_path(data_dir: Path, tenant: str, name: str) -> Path:
    """The file of a tenant's model. Raises InvalidInput."""
    return models_folder(data_dir, tenant) / f"{check_name(name)}.safetensors"


def models_folder(data_dir: Path, tenant: str) -> Path:
    return owner_folder(data_dir / "infill", tenant)


class TunedModels:
    """The tenants' models of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def find(self, tenant: str, name: str) -> FileVersion:
        """The model with this name. Raises InvalidInput if the tenant has none."""
        file = file_version(model_path(self._data_dir, tenant, name)) if re.fullmatch(NAME, name) else None
        if file is None:
            raise InvalidInput("no such model; GET /models lists your own", field="fill.model")
        return file

    async def of_tenant(self, tenant: str) -> list[dict[str, Any]]:
        """The tenant's models with their facts. A broken file has its name only."""
        folder = models_folder(self._data_dir, tenant)

        def read() -> list[dict[str, Any]]:
            paths = sorted(path for path in folder.glob("*.safetensors") if re.fullmatch(NAME, path.stem))
            return [{"name": path.stem, **_facts(path)} for path in paths]

        return await asyncio.to_thread(read)

    async def remove(self, tenant: str, name: str) -> None:
        """Delete a model and its card. Raises UnknownModel."""
        path = model_path(self._data_dir, tenant, name)
        try:
            await asyncio.to_thread(path.unlink)
        except FileNotFoundError:
            raise UnknownModel from None
        await asyncio.to_thread(path.with_suffix(".md").unlink, missing_ok=True)


def _facts(path: Path) -> dict[str, Any]:
    """The facts in the file's header. A worker checks the weights before it uses them."""
    try:
        with safe_open(path, framework="numpy") as file:
            info = json.loads((file.metadata() or {})["info"])
        return {"usable": True, **{name: int(info[name]) for name in _FACTS}}
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return {"usable": False}

"""Domain packs that a request can name: the tenant's own first, then the shared ones, then the installed ones.

    <data_dir>/domains/tenants/<tenant>/<name>.safetensors     built by a tenant's job
    <data_dir>/domains/shared/<name>.safetensors               built by the operator

The domain `auto` is no pack: it chooses one of the installed packs that the installed routes name, for each document.
It exists if all of them are installed and made for the encoder of the routes.

A file that cannot be used is an error for requests that name it, and for no others. Domains of other tenants are
not visible. Files are looked up at each request, so that what a job or a command writes can be used at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import DomainBroken, InvalidInput, UnknownDomain
from core.files.file_version import FileVersion, file_digest, file_version
from core.ledger.names import SHARED_OWNER
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.pack_facts import CodeNoise, DomainPackInfo, InvalidPack
from core.mechanisms.sentences.routes import AUTO, RoutesInfo
from gpu_workers.packs import pack_paths, routes_path
from service.config.data_dir import NAME, check_name, owner_folder

DEFAULT_NAME = "general"  # used by a request that names no domain
_CHECKED_MAX = 1024

Checked = tuple[DomainPackInfo, str]  # a pack's facts, and the digest of its file


def pack_path(data_dir: Path, owner: str, name: str) -> Path:
    """The file of a domain's pack. Raises InvalidInput for a name that no pack can have."""
    if name == AUTO:
        raise InvalidInput(f"`{AUTO}` chooses among the installed packs; no pack has this name", field="name")
    return domains_folder(data_dir, owner) / f"{check_name(name)}.safetensors"


def domains_folder(data_dir: Path, owner: str) -> Path:
    return owner_folder(data_dir / "domains", owner)


@dataclass(frozen=True)
class Domain:
    """A domain that a request may use. `file` is None for a domain that every worker loads at its start.

    `digest` is the SHA-256 of the pack's file, or of the digests of all files that a choice of the pack depends on. It
    distinguishes two packs with the same name.
    """

    info: DomainPackInfo | RoutesInfo
    digest: str
    file: FileVersion | None
    scope: str

    @property
    def is_routed(self) -> bool:
        """Whether the pack is chosen for each document."""
        return isinstance(self.info, RoutesInfo)

    def code_noise(self, epsilon_nano: int) -> CodeNoise | None:
        """The noise of `sentence_codes` at this epsilon; None if it depends on the chosen pack."""
        if isinstance(self.info, RoutesInfo):
            return None
        return self.info.parameters_for(epsilon_nano).code_noise


class Domains:
    """The domains of one data directory. `packs_dir` holds the operator's installed packs."""

    def __init__(self, data_dir: Path, packs_dir: Path | None) -> None:
        self._data_dir = data_dir
        paths = pack_paths(packs_dir)
        if AUTO in paths:
            raise InvalidPack(f"a pack cannot have the name `{AUTO}`")
        self._installed = {name: (DomainPackInfo.read(path), file_digest(path)) for name, path in paths.items()}
        self._auto = self._routed(routes_path(packs_dir))
        self._checked: dict[FileVersion, Checked | None] = {}

    def _routed(self, path: Path | None) -> Domain | None:
        """The domain `auto`. Raises InvalidPack for a malformed file."""
        if path is None:
            return None
        info = RoutesInfo.read(path)
        if not info.fits({name: pack for name, (pack, _) in self._installed.items()}):
            return None
        digests = [file_digest(path), *(self._installed[name][1] for name in info.packs)]
        return Domain(info, hashlib.sha256(" ".join(digests).encode()).hexdigest(), None, "installed")

    async def find(self, tenant: str, name: str) -> Domain:
        """The domain with this name that is visible to the tenant.

        Raises InvalidInput if there is none, DomainBroken for a file that cannot be used.
        """
        if name == AUTO:
            if self._auto is None:
                raise InvalidInput(
                    "no routes are installed for the installed packs; GET /domains lists the domains", field="domain"
                )
            return self._auto
        if re.fullmatch(NAME, name):
            for owner, scope in ((tenant, "tenant"), (SHARED_OWNER, "shared")):
                file = file_version(pack_path(self._data_dir, owner, name))
                if file is not None:
                    return Domain(*await self._read(file), file, scope)
            if name in self._installed:
                return Domain(*self._installed[name], None, "installed")
        raise InvalidInput("no such domain; GET /domains lists them", field="domain")

    async def visible(self, tenant: str) -> list[dict[str, Any]]:
        """Every domain that `find` can return for this tenant, with its facts. A broken file has its name only.

        For SHARED_OWNER, the domains that belong to no tenant.
        """
        shown: dict[str, dict[str, Any]] = {
            name: {"scope": "installed", "usable": True, **info.as_json()}
            for name, (info, _) in self._installed.items()
        }
        if self._auto is not None:
            shown[AUTO] = {"scope": "installed", "usable": True, **self._auto.info.as_json(), "name": AUTO}
        for owner, scope in ((SHARED_OWNER, "shared"), (tenant, "tenant")):
            if owner == tenant == SHARED_OWNER and scope == "tenant":
                continue  # the operator has no domains besides the shared ones
            shown |= {row["name"]: row for row in await self.of_owner(owner, scope)}
        return [shown[name] for name in sorted(shown)]

    async def of_owner(self, owner: str, scope: str) -> list[dict[str, Any]]:
        """The domains that belong to `owner`."""
        folder = domains_folder(self._data_dir, owner)
        rows: list[dict[str, Any]] = []
        for path in await asyncio.to_thread(lambda: sorted(folder.glob("*.safetensors"))):
            file = file_version(path)
            if file is None or not re.fullmatch(NAME, path.stem) or path.stem == AUTO:
                continue
            try:
                rows.append(
                    {"scope": scope, "usable": True, **(await self._read(file))[0].as_json(), "name": path.stem}
                )
            except DomainBroken:
                rows.append({"scope": scope, "usable": False, "name": path.stem})
        return rows

    async def remove(self, owner: str, name: str) -> None:
        """Delete a domain and its card. Raises UnknownDomain."""
        path = pack_path(self._data_dir, owner, name)
        try:
            await asyncio.to_thread(path.unlink)
        except FileNotFoundError:
            raise UnknownDomain from None
        await asyncio.to_thread(path.with_suffix(".md").unlink, missing_ok=True)

    async def _read(self, file: FileVersion) -> Checked:
        """The facts and digest of a file. Each version of a file is read and checked once. Raises DomainBroken."""
        if file not in self._checked:
            if len(self._checked) >= _CHECKED_MAX:
                self._checked.clear()
            self._checked[file] = await asyncio.to_thread(_checked, Path(file.path))
        checked = self._checked[file]
        if checked is None:
            raise DomainBroken
        return checked


def _checked(path: Path) -> Checked | None:
    try:
        return DomainPack.load(path).info, file_digest(path)
    except (InvalidPack, OSError):
        return None

"""Domain packs that a request can name: the tenant's own first, then the shared ones, then the installed ones.

Packs of tenants and of the operator are in the blob store (`service.files.stored`), so every gateway finds them.

The domain `auto` is no pack: it chooses one of the installed packs that the installed routes name, for each document.
It exists if the routes are well-formed, and all of their packs can be used and are made for the encoder of the routes.

An installed pack that is malformed, or that the workers have not loaded because it was made for another encoder, is
left out with a warning. A domain's file that cannot be used is an error for requests that name it, and for no others.
Domains of other tenants are not visible. Names are looked up at each request, so that what a job or a command stores
can be used at once.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import BlobCorrupt, BlobMissing, InstalledFileBroken, InvalidInput, StorageFull, UnknownName
from core.files.disk import FileVersion, file_digest
from core.mechanisms.sentences.domain_pack import CodeNoise, DomainPack, DomainPackInfo, InvalidPack
from core.mechanisms.sentences.routes import AUTO, RoutesInfo
from core.redis.names import SHARED_OWNER
from core.state.stored_files import DOMAINS
from gpu_workers.handlers.options import load_pack
from gpu_workers.packs import pack_paths, routes_path
from service.config.data_dir import NAME, check_name
from service.files.stored import StoredFiles

DEFAULT_NAME = "general"  # used by a request that names no domain
RESERVED = (AUTO, "routes")  # `auto` is no pack, and an installed pack of the other name would be the routes' file
_CHECKED_MAX = 1024

log = logging.getLogger("privacy_gateway.domains")

Checked = tuple[DomainPackInfo, str]  # a pack's facts, and the digest of its file


def check_new_name(name: str) -> str:
    """The name of a pack that is to be built. Raises InvalidInput for a malformed or reserved one."""
    if name in RESERVED:
        raise InvalidInput(f"the name `{name}` is reserved", field="name")
    return check_name(name)


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


class DomainStore:
    """The domains of one gateway.

    `files`: None if there are no domains but the installed ones. `packs_dir` holds those. `loaded` returns the names of
    the installed domains that the workers have loaded, None while this is not known.
    """

    def __init__(
        self,
        files: StoredFiles | None,
        packs_dir: Path | None,
        *,
        loaded: Callable[[], Collection[str] | None] = lambda: None,
    ) -> None:
        self._files = files
        self._loaded = loaded
        self._all_installed = _installed(packs_dir)
        self._routes = self._routed(routes_path(packs_dir))
        self._checked: dict[FileVersion, DomainPackInfo | None] = {}

    def _routed(self, path: Path | None) -> Domain | None:
        """The domain `auto`, None with a warning if the routes cannot be used."""
        if path is None:
            return None
        try:
            info, digest = RoutesInfo.read(path), file_digest(path)
        except (InvalidPack, OSError) as error:
            log.warning("the routes of the domain packs are left out: %s", _reason(error))
            return None
        if not info.fits({name: pack for name, (pack, _) in self._all_installed.items()}):
            log.warning("the routes of the domain packs are left out: a pack is missing or made for another encoder")
            return None
        digests = [digest, *(self._all_installed[name][1] for name in info.packs)]
        return Domain(info, hashlib.sha256(" ".join(digests).encode()).hexdigest(), None, "installed")

    @property
    def _installed(self) -> dict[str, Checked]:
        """The installed packs that can be used."""
        loaded = self._loaded()
        return {name: pack for name, pack in self._all_installed.items() if loaded is None or name in loaded}

    @property
    def _auto(self) -> Domain | None:
        """The domain `auto`, None if it cannot be used."""
        loaded = self._loaded()
        return self._routes if loaded is None or AUTO in loaded else None

    def warn_of_unloaded(self) -> None:
        """Log the installed packs that the workers have not loaded."""
        for name in sorted(self._all_installed.keys() - self._installed.keys()):
            log.warning("the domain pack %r is left out: the workers cannot use it with their encoder", name)
        if self._routes is not None and self._auto is None:
            log.warning("the domain %r is left out: the workers cannot use all of its packs", AUTO)

    async def find(self, tenant: str, name: str) -> Domain:
        """The domain with this name that is visible to the tenant.

        Raises InvalidInput if there is none, InstalledFileBroken for a file that cannot be used; BlobMissing,
        BlobCorrupt, StoreUnavailable, StorageFull, LedgerUnavailable.
        """
        if name == AUTO:
            auto = self._auto
            if auto is None:
                raise InvalidInput(
                    "no routes are installed for the installed packs; GET /domains lists the domains", field="domain"
                )
            return auto
        if re.fullmatch(NAME, name):
            stored = await self._stored(tenant, name)
            if stored is not None:
                return stored
            installed = self._installed.get(name)
            if installed is not None:
                return Domain(*installed, None, "installed")
        raise InvalidInput("no such domain; GET /domains lists them", field="domain")

    async def _stored(self, tenant: str, name: str) -> Domain | None:
        if self._files is None:
            return None
        owners = ((tenant, "tenant"), (SHARED_OWNER, "shared"))
        entries = await self._files.index.get_many([(owner, DOMAINS, name) for owner, _ in owners])
        for (owner, scope), entry in zip(owners, entries, strict=True):
            file = await self._files.local(owner, DOMAINS, name, entry)
            if file is not None:
                return Domain(await self._read(file), file.stamp, file, scope)
        return None

    async def visible(self, tenant: str) -> list[dict[str, Any]]:
        """Every domain that `find` can return for this tenant, with its facts. A broken file has its name only.

        For SHARED_OWNER, the domains that belong to no tenant.
        """
        shown: dict[str, dict[str, Any]] = {
            name: {"scope": "installed", "usable": True, **info.as_json()}
            for name, (info, _) in self._installed.items()
        }
        for owner, scope in ((SHARED_OWNER, "shared"), (tenant, "tenant")):
            if owner == tenant == SHARED_OWNER and scope == "tenant":
                continue  # the operator has no domains besides the shared ones
            shown |= {row["name"]: row for row in await self.of_owner(owner, scope)}
        auto = self._auto
        if auto is not None:
            shown[AUTO] = {"scope": "installed", "usable": True, **auto.info.as_json(), "name": AUTO}
        return [shown[name] for name in sorted(shown)]

    async def of_owner(self, owner: str, scope: str) -> list[dict[str, Any]]:
        """The domains that belong to `owner`. One whose file cannot be read now, also for lack of space, has its name
        only."""
        rows: list[dict[str, Any]] = []
        if self._files is None:
            return rows
        for name, entry in sorted((await self._files.index.of_owner(owner, DOMAINS)).items()):
            try:
                file = await self._files.local(owner, DOMAINS, name, entry)
                if file is None:
                    raise InstalledFileBroken
                rows.append({"scope": scope, "usable": True, **(await self._read(file)).as_json(), "name": name})
            except (InstalledFileBroken, BlobMissing, BlobCorrupt, StorageFull):
                rows.append({"scope": scope, "usable": False, "name": name})
        return rows

    async def remove(self, owner: str, name: str) -> None:
        """Delete a domain and its card. Raises UnknownName."""
        if self._files is None or not await self._files.remove(owner, DOMAINS, check_name(name)):
            raise UnknownName

    async def _read(self, file: FileVersion) -> DomainPackInfo:
        """The facts of a file. Each version of a file is read and checked once. Raises InstalledFileBroken."""
        if file not in self._checked:
            if len(self._checked) >= _CHECKED_MAX:
                self._checked.clear()
            self._checked[file] = await asyncio.to_thread(_checked, Path(file.path))
        checked = self._checked[file]
        if checked is None:
            raise InstalledFileBroken
        return checked


def _installed(packs_dir: Path | None) -> dict[str, Checked]:
    """The installed packs that are well-formed. Warns of others."""
    found = {}
    for name, path in pack_paths(packs_dir).items():
        try:
            found[name] = (load_pack(name, path).info, file_digest(path))
        except (InvalidPack, OSError) as error:
            log.warning("the domain pack %r is left out: %s", name, _reason(error))
    return found


def _reason(error: InvalidPack | OSError) -> str:
    """The message of an InvalidPack. That of an OSError contains a path."""
    return str(error) if isinstance(error, InvalidPack) else "the file cannot be read"


def _checked(path: Path) -> DomainPackInfo | None:
    """The facts of a pack, None for a malformed one. Raises InstalledFileBroken for a file that cannot be read."""
    try:
        return DomainPack.load(path).info
    except InvalidPack:
        return None
    except OSError:  # removed meanwhile: a later request has it again
        raise InstalledFileBroken from None

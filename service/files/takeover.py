"""Takes over the files of the last release, which lay in the data directory, into the blob store.

    <data_dir>/domains/...    <data_dir>/infill/...    <data_dir>/artifacts/...

Guarantee: a file is removed from the data directory once its entry is in Redis and its blob is in the store. Where
another gateway has stored another file under the same name before, that one stays in use, and the file in the data
directory gets the suffix `.not-taken-over`. No start looks at it again: a name that is deleted later stays deleted. An
artifact has the name of its job, so there is no other one.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from core.errors import InvalidInput
from core.files.file_version import file_digest
from core.ledger.names import SHARED_OWNER, check_tenant
from core.ledger.stored_files import AREAS, ARTIFACTS
from service.config.data_dir import NAME
from service.files.stored import StoredFiles

_SUFFIXES = (".safetensors", ".md", ".html")
_LEFT = ".not-taken-over"

log = logging.getLogger("privacy_gateway.files")


async def take_over_files(data_dir: Path, files: StoredFiles, *, artifact_retention_s: float) -> None:
    """Safe to repeat, and beside other processes that do the same. Raises StoreUnavailable, LedgerUnavailable."""
    for area in AREAS:
        for owner, path in await asyncio.to_thread(_found, data_dir / area):
            with suppress(FileNotFoundError):  # another process has taken it over
                await _take_over(files, owner, area, path, artifact_retention_s)


async def _take_over(files: StoredFiles, owner: str, area: str, path: Path, artifact_retention_s: float) -> None:
    parts = {suffix: path.with_suffix(suffix) for suffix in _SUFFIXES if path.with_suffix(suffix).is_file()}
    changed_s = (await asyncio.to_thread(path.stat)).st_mtime
    ends_ms = int((changed_s + artifact_retention_s) * 1000) if area == ARTIFACTS else None
    if await files.take_over(owner, area, path.stem, parts, ends_ms=ends_ms):
        log.info("file-taken-over", extra={"fields": {"area": area, "owner": owner, "name": path.stem}})
    elif area != ARTIFACTS and not await _has_same(files, owner, area, path.stem, parts):
        log.warning("file-not-taken-over", extra={"fields": {"area": area, "owner": owner, "name": path.stem}})
        for part in _in_order(parts):
            await asyncio.to_thread(part.rename, part.with_name(part.name + _LEFT))
        return
    for part in _in_order(parts):
        await asyncio.to_thread(part.unlink, missing_ok=True)


async def _has_same(files: StoredFiles, owner: str, area: str, name: str, parts: Mapping[str, Path]) -> bool:
    """Whether the entry has these files: an earlier start stored them, and a crash came before they were removed."""
    entry = await files.index.get(owner, area, name)
    digests = {suffix: await asyncio.to_thread(file_digest, path) for suffix, path in parts.items()}
    return entry is not None and digests.items() <= {(suffix, part.digest) for suffix, part in entry.parts.items()}


def _in_order(parts: Mapping[str, Path]) -> list[Path]:
    """The order in which files go: while the one that `_found` looks for is there, the next start continues."""
    return [parts[suffix] for suffix in sorted(parts, key=lambda suffix: suffix == _SUFFIXES[0])]


def _found(root: Path) -> list[tuple[str, Path]]:
    """Owners, and the files of theirs that the last release wrote."""
    folders = [(SHARED_OWNER, root / "shared")]
    for each in sorted((root / "tenants").glob("*/")):
        try:
            folders.append((check_tenant(each.name), each))
        except InvalidInput:  # such as `lost+found`; its name may be anything
            log.warning("folder-not-taken-over", extra={"fields": {"area": root.name}})
    return [
        (owner, path)
        for owner, folder in folders
        for path in sorted(folder.glob("*.safetensors"))
        if re.fullmatch(NAME, path.stem)
    ]

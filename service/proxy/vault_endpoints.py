"""`/vault`: what the vault has of a tenant, and its deletion. Neither shows content, nor a name."""

from typing import Annotated

from fastapi import APIRouter, Response
from typing_extensions import TypedDict

from core.state.vault import Vault
from service.config.settings import Settings
from service.http.answers import doc
from service.http.auth import ReadCallerDep, ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.strict import PagingDep
from service.parts import Part

router = APIRouter(prefix="/vault", route_class=JsonRoute, tags=["language models"])


class VaultRow(TypedDict):
    """An entry of the vault, without its content."""

    id: Annotated[str, doc("The id, random.")]
    bytes: Annotated[int, doc("Its size, encrypted.")]
    expires_ms: Annotated[int, doc("When it ends, in milliseconds since the epoch.")]


class VaultPage(TypedDict):
    """What the vault has of a tenant."""

    entries: Annotated[int, doc("How many entries.")]
    entries_max: Annotated[int, doc("How many it may have.")]
    bytes: Annotated[int, doc("The size of all entries, encrypted.")]
    bytes_max: Annotated[int, doc("The size that they may have.")]
    first_expires_ms: Annotated[int | None, doc("When the first one ends; null for none.")]
    last_expires_ms: Annotated[int | None, doc("When the last one ends; null for none.")]
    data: Annotated[list[VaultRow], doc("A page of entries.")]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; null on the last one.")]


@router.get("", summary="What the vault has of the tenant, in numbers, and its entries, page by page")
async def list_vault(caller: ReadCallerDep, vault: Part[Vault], settings: Part[Settings], page: PagingDep) -> VaultPage:
    count = await vault.count(caller.tenant)
    found = await vault.page(caller.tenant, cursor=page.cursor, limit=page.limit + 1)
    shown = found[: page.limit]
    return {
        "entries": count.entries,
        "entries_max": settings.vault_entries_max,
        "bytes": count.size_bytes,
        "bytes_max": settings.vault_bytes_max,
        "first_expires_ms": count.first_expires_ms,
        "last_expires_ms": count.last_expires_ms,
        "data": [{"id": entry.entry_id, "bytes": entry.size_bytes, "expires_ms": entry.expires_ms} for entry in shown],
        "next_cursor": shown[-1].cursor if len(found) > len(shown) else None,
    }


@router.delete("", status_code=204, summary="Delete all entries of the tenant")
async def clear_vault(caller: ReleaseCallerDep, vault: Part[Vault]) -> Response:
    await vault.clear(caller.tenant)
    return Response(status_code=204)


@router.delete("/{entry_id}", status_code=204, summary="Delete an entry, if there is one of this id")
async def delete_vault_entry(entry_id: str, caller: ReleaseCallerDep, vault: Part[Vault]) -> Response:
    await vault.delete(caller.tenant, entry_id)
    return Response(status_code=204)

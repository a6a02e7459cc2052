"""`POST /restore`: the originals back in a text that was made from a reversible answer of `POST /sanitize`."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from core.errors import InvalidInput
from service.config.settings import DOCUMENTS_TAKEN
from service.deps import PreparationDep, RestoreTokensDep, SettingsDep
from service.http.auth import ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.strict import AtMost, Strict
from service.restore.tokens import PACKING

router = APIRouter(route_class=JsonRoute, tags=["text"])

_RESTORE_WORK = 8  # the time to restore a character, against one of plain JSON


class RestoreRequest(Strict):
    """Body of `POST /restore`."""

    texts: Annotated[list[str], AtMost(DOCUMENTS_TAKEN)] = Field(
        min_length=1, description="Texts that a model or a person made from the sanitised documents."
    )
    restore_token: str = Field(description="Of the answer of POST /sanitize with `reversible`.")


@router.post("/restore", summary="Put the originals back for the surrogates of a reversible answer")
async def restore(
    body: RestoreRequest,
    caller: ReleaseCallerDep,
    tokens: RestoreTokensDep,
    settings: SettingsDep,
    preparation: PreparationDep,
) -> dict[str, Any]:
    if len(body.texts) > settings.documents_max:
        raise InvalidInput(f"At most {settings.documents_max} texts a call.", field="texts")
    for index, text in enumerate(body.texts):
        if len(text) > settings.document_chars_max:
            raise InvalidInput(f"At most {settings.document_chars_max} characters a text.", field=f"texts.{index}")
    await asyncio.to_thread(import_module, PACKING)

    def restored() -> dict[str, Any]:
        surrogates = tokens.open(caller.tenant, body.restore_token)
        return {"data": [{"index": index, "text": surrogates.restore(text)} for index, text in enumerate(body.texts)]}

    size = _RESTORE_WORK * (len(body.restore_token) + sum(map(len, body.texts)))
    return await preparation.run(caller.tenant, size, restored)

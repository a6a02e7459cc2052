"""`POST /restore`: the originals back in a text that was made from a reversible answer of `POST /sanitize`."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field
from typing_extensions import TypedDict

from core.errors import InvalidInput
from core.master_key import MasterKey
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.conversation_tasks import RestoreTask
from service.capability import Capability
from service.config.settings import DOCUMENTS_TAKEN, Settings
from service.http.answers import doc
from service.http.auth import ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.exchange import disconnect_of
from service.http.strict import AtMost, Strict
from service.parts import Part, Parts
from service.preparation import Preparation
from service.releases.pipeline import ReleasePipeline
from service.releases.request import Work
from service.restore.tokens import RestoreTokens

router = APIRouter(route_class=JsonRoute, tags=["text"])


class RestoreRequest(Strict):
    """Body of `POST /restore`."""

    texts: Annotated[list[str], AtMost(DOCUMENTS_TAKEN)] = Field(
        min_length=1, description="Texts that a model or a person made from the sanitised documents."
    )
    restore_token: str = Field(description="Of the answer of POST /sanitize with `reversible`.")


class RestoredText(TypedDict):
    """A text with its originals."""

    index: Annotated[int, doc("The place of the text in the request, from 0.")]
    text: Annotated[str, doc("The text.")]


class RestoredTexts(TypedDict):
    """Texts with their originals."""

    data: Annotated[list[RestoredText], doc("The texts, in their order.")]


@router.post("/restore", summary="Put the originals back for the surrogates of a reversible answer")
async def restore(
    body: RestoreRequest,
    request: Request,
    caller: ReleaseCallerDep,
    tokens: Part[RestoreTokens],
    settings: Part[Settings],
    preparation: Part[Preparation],
    releases: Part[ReleasePipeline],
) -> RestoredTexts:
    if len(body.texts) > settings.documents_max:
        raise InvalidInput(f"At most {settings.documents_max} texts a call.", field="texts")
    for index, text in enumerate(body.texts):
        if len(text) > settings.document_chars_max:
            raise InvalidInput(f"At most {settings.document_chars_max} characters a text.", field=f"texts.{index}")
    size = len(body.restore_token) + sum(map(len, body.texts))
    content = await preparation.run(caller.tenant, size, tokens.open, caller.tenant, body.restore_token)
    task = RestoreTask(body.texts, content)
    restoring = Work(role=Role.SANITIZE, tasks=[Task(task, task.weight)])
    async with disconnect_of(request) as client_disconnected:
        (restored,) = await releases.results(caller, restoring, client_disconnected)
    return {"data": [{"index": index, "text": text} for index, text in enumerate(restored)]}


def _tokens(parts: Parts) -> RestoreTokens:
    return RestoreTokens(parts[MasterKey].restore_key, lifetime_s=parts[Settings].restore_token_lifetime_s)


CAPABILITY = Capability(name="restore", routers=[router], services={RestoreTokens: _tokens})

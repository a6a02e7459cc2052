"""The tenant's fine-tuned classifiers: list them, let one answer, delete one."""

from typing import Annotated, NotRequired, cast

from fastapi import APIRouter, Request, Response
from typing_extensions import TypedDict

from service.accounting.calculations import Calculations
from service.capability import Capability
from service.config.settings import Settings
from service.files.stored import StoredFiles
from service.finetune.job_kind import FinetuneKind
from service.finetune.prediction import Classifiers, Predictions, PredictRequest, prediction
from service.http.answers import IDEMPOTENT, doc
from service.http.auth import JobsCallerDep, ReadCallerDep, ReleaseCallerDep
from service.http.body import JsonRoute, take_large_place
from service.parts import Part, Parts
from service.releases.pipeline import ReleasePipeline

router = APIRouter(route_class=JsonRoute, tags=["jobs"])


class ClassifierFacts(TypedDict):
    """A fine-tuned classifier of the tenant. One whose file cannot be used has its first two members only."""

    name: Annotated[str, doc("The name, as in the path of `POST /finetuned/{name}/predict`.")]
    usable: Annotated[bool, doc("Whether its file can be used.")]
    model: NotRequired[Annotated[str, doc("The encoder, by its name in `finetune` of GET /models.")]]
    method: NotRequired[Annotated[str, doc("What was trained of it.")]]
    labels: NotRequired[Annotated[list[str], doc("The labels, in the order of the scores.")]]
    pairs: NotRequired[Annotated[bool, doc("Whether it reads pairs of texts.")]]
    rows: NotRequired[Annotated[int, doc("The declared number of private rows.")]]
    epsilon: NotRequired[Annotated[float, doc("The certified epsilon of the training, add-remove.")]]
    delta: NotRequired[Annotated[float, doc("The delta of the training.")]]


class ClassifierList(TypedDict):
    """Fine-tuned classifiers."""

    classifiers: Annotated[list[ClassifierFacts], doc("The tenant's classifiers, by name.")]


@router.get("/finetuned", summary="The tenant's fine-tuned classifiers")
async def list_classifiers(caller: ReadCallerDep, found: Part[Classifiers]) -> ClassifierList:
    return {"classifiers": cast(list[ClassifierFacts], await found.of_tenant(caller.tenant))}


@router.delete("/finetuned/{name}", status_code=204, summary="Delete a fine-tuned classifier of the tenant")
async def delete_classifier(name: str, caller: JobsCallerDep, found: Part[Classifiers]) -> Response:
    await found.remove(caller.tenant, name)
    return Response(status_code=204)


@router.post(
    "/finetuned/{name}/predict",
    summary="The labels of texts by a fine-tuned classifier; costs no budget",
    response_model=Predictions,
    openapi_extra=IDEMPOTENT,
)
async def predict(
    name: str,
    body: PredictRequest,
    request: Request,
    caller: ReleaseCallerDep,
    found: Part[Classifiers],
    settings: Part[Settings],
    releases: Part[ReleasePipeline],
) -> Response:
    """The answer is post-processing of a released model, so nothing is charged. It is a function of the sent texts,
    which it does not protect."""
    await take_large_place(request, caller.tenant, texts=len(body.texts))
    classifier = await found.find(caller.tenant, name)
    return await releases.release(request, caller, prediction(name, classifier, body, settings))


def _kind(parts: Parts) -> FinetuneKind:
    return FinetuneKind(parts[Settings], calculations=parts[Calculations], files=parts[StoredFiles])


CAPABILITY = Capability(
    name="finetune",
    routers=[router],
    services={Classifiers: lambda parts: Classifiers(parts[StoredFiles])},
    job_kinds=lambda parts: [_kind(parts)],
)

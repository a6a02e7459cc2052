"""A toy charging endpoint: `POST /toy/titles` releases the topic of a list of titles as one private vector.

In the project itself this would be a folder, `service/NAME`, with the modules `schemas.py`, `service.py` and
`endpoints.py`.
"""

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from core.amounts import cost_nano
from core.ledger.records import Charge
from core.mechanisms.sentences.registry import sentence_event
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.tasks import EmbedRelease, EmbedTask
from service.capability import Capability, Estimated
from service.config.settings import Settings
from service.domains.store import DomainStore
from service.http.auth import ReleaseCallerDep
from service.http.body import JsonRoute
from service.http.strict import Strict
from service.parts import Part, Parts
from service.releases.pipeline import ReleasePipeline
from service.releases.request import Price, ReleaseRequest, check_epsilon

MECHANISM, DOMAIN = "sentence_codes", "general"


class TitlesRequest(Strict):
    """Body of `POST /toy/titles`."""

    titles: list[str] = Field(min_length=1, max_length=100)
    epsilon: float = Field(gt=0)


class TitlesService:
    """Guarantee: pure epsilon-DP for replacing one title. The number of titles is public."""

    def __init__(self, settings: Settings, domains: DomainStore) -> None:
        self._settings = settings
        self._domains = domains

    async def price(self, tenant: str, body: TitlesRequest) -> Price:
        check_epsilon(body.epsilon, self._settings)
        domain = await self._domains.find(tenant, DOMAIN)
        return Price([Charge(sentence_event(MECHANISM, body.epsilon, domain.code_noise(cost_nano(body.epsilon))))])

    async def release_request(self, tenant: str, body: TitlesRequest) -> ReleaseRequest:
        price = await self.price(tenant, body)
        event = price.charges[0].event
        task = EmbedTask(
            sentences=tuple(body.titles), embeddings=None, mechanism=MECHANISM, domain=DOMAIN,
            epsilon_nano=event.epsilon_nano, by_counts=event.kind == "two_geometric",
        )  # fmt: skip

        def render(results: list[EmbedRelease], common: dict[str, Any]) -> dict[str, Any]:
            return {"topic": results[0].vector.tolist(), **common}

        tasks = [Task(task, task.weight)]
        return ReleaseRequest(charges=price.charges, role=Role.EMBED, tasks=tasks, render=render)


router = APIRouter(route_class=JsonRoute, tags=["toys"])


@router.post("/toy/titles", summary="The topic of some titles")
async def titles(
    body: TitlesRequest,
    request: Request,
    caller: ReleaseCallerDep,
    service: Part[TitlesService],
    releases: Part[ReleasePipeline],
) -> Response:
    return await releases.release(request, caller, await service.release_request(caller.tenant, body))


def one_title(epsilon: float) -> list[TitlesRequest]:
    return [TitlesRequest(titles=["A title"], epsilon=epsilon)]


def price(parts: Parts) -> Estimated:
    return Estimated("titles", TitlesRequest, {"titles"}, parts[TitlesService], one_title, "toy/titles")


CAPABILITY = Capability(
    name="toy-titles",
    routers=[router],
    services={TitlesService: lambda parts: TitlesService(parts[Settings], parts[DomainStore])},
    prices=lambda parts: [price(parts)],
)

"""What is installed: models with revision and device, and what the entity technique recognises."""

from typing import Any

from fastapi import APIRouter, Response

from core.mechanisms.vectors.spec import PROJECTED_MAX
from core.text.languages import ENGLISH, EVERY_LANGUAGE_ENTITIES, LANGUAGES
from core.text.policy import ENTITIES, PROFILES, Entity, supported
from gpu_workers.engine.protocol import Engine, RoleStatus
from gpu_workers.finetune.spec import BUNDLED
from service.config.settings import Settings
from service.http.auth import READER, JobsCallerDep, ReadCallerDep
from service.parts import Part
from service.sanitize.fills import TunedModels
from service.sanitize.policies import Policies
from service.vectors.constructions import KINDS, RECIPE
from service.workers import Workers

router = APIRouter(tags=["catalogue"])


@router.get("/models", summary="The models that run, and how")
async def models(
    caller: ReadCallerDep,
    engine: Part[Engine],
    policies: Part[Policies],
    settings: Part[Settings],
    tuned: Part[TunedModels],
) -> dict[str, Any]:
    roles = {role: engine.status(role) for role in engine.roles}
    allow_lists = list(policies.allow_lists(caller.tenant))
    return {
        "models": [
            {"role": role.value, "ready": status.ready, "stage": status.stage, **_facts(status, allow_lists)}
            for role, status in roles.items()
        ],
        "finetune": [BUNDLED, *settings.finetune_models],
        "fine_tuned": await tuned.of_tenant(caller.tenant),
        "projections": {
            "kinds": list(KINDS),
            "dimension_max": settings.vector_dimension_max,
            "output_dimension_max": PROJECTED_MAX,
            "location": "/models/projections/{kind}-{dimension}-{output_dimension}",
            "recipe": RECIPE,
        },
    }


@router.delete("/models/fine-tuned/{name}", status_code=204, summary="Delete a fine-tuned model of the tenant")
async def remove_model(name: str, caller: JobsCallerDep, tuned: Part[TunedModels]) -> Response:
    await tuned.remove(caller.tenant, name)
    return Response(status_code=204)


def _facts(status: RoleStatus, allow_lists: list[str]) -> dict[str, Any]:
    """What a worker reports of itself, without the allow lists of other tenants."""
    facts = status.facts.as_json() if status.facts else {}
    if "allow_lists" in facts:
        facts["allow_lists"] = allow_lists
    return facts


def _recognisers(entity: Entity, tagged: bool) -> list[str]:
    return [*(["pattern"] if entity.module else []), *(["tagger"] if tagged else [])]


@router.get("/entities", summary="What the entity technique recognises", dependencies=[READER])
async def entities(workers: Part[Workers]) -> dict[str, Any]:
    rows = [(name, ENTITIES[name]) for name in supported(workers.tagger_types)]
    return {
        "entities": [
            {
                "name": name,
                "threshold": entity.threshold,
                "default": entity.default,
                "languages": list(LANGUAGES) if name in EVERY_LANGUAGE_ENTITIES else [ENGLISH],
                "recognisers": _recognisers(entity, name in workers.tagger_types),
            }
            for name, entity in rows
        ],
        "profiles": {name: list(members) for name, members in PROFILES.items()},
    }

"""Private fine-tuning: the job that trains a classifier on private texts and labels.

Guarantee: (epsilon, delta)-DP for one row of the private split, once a job; charged to the tenant's record account at
what the run certifiably costs for replacing one.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from service.finetune.job_kind import FINETUNE
from service.house import House, house
from service.http.auth import Caller, require_tenant
from service.http.body import JsonRoute
from service.jobs.endpoints import created

router = APIRouter(route_class=JsonRoute, tags=["jobs"])


@router.post(
    "/jobs/finetune",
    status_code=202,
    summary="Fine-tune a text classifier under differential privacy",
    response_model=None,
    openapi_extra={"requestBody": FINETUNE.openapi},
)
async def create_finetune(
    request: Request,
    caller: Annotated[Caller, Depends(require_tenant)],
    here: Annotated[House, Depends(house)],
    response: Response,
) -> dict[str, Any]:
    """As `POST /jobs/domain`, with a tenant's key alone. Holds its cost now and spends it before its first step."""
    return await created(request, caller.tenant, here, response, FINETUNE)

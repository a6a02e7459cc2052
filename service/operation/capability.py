"""Liveness, readiness, metrics and what is installed, as a capability of the gateway."""

from core.ledger.transitions import Ledger
from core.state.keystore import KeyRole
from gpu_workers.engine.protocol import Engine
from service.capability import Capability, View
from service.config.settings import Settings
from service.operation.endpoints import router as audit
from service.operation.endpoints import router as catalogue
from service.operation.endpoints import router as service_state
from service.operation.health import Readiness, Scrapes, metrics_router
from service.operation.health import router as health
from service.parts import Parts
from service.preparation import Preparation


def _readiness(parts: Parts) -> Readiness:
    return Readiness(parts[Engine], parts[Ledger], cache_s=parts[Settings].ready_cache_s)


CAPABILITY = Capability(
    name="operation",
    routers=[catalogue],
    operator_routers=[metrics_router, audit, service_state],
    common_routers=[health],
    services={Readiness: _readiness, Scrapes: lambda parts: Scrapes(parts[Preparation])},
    views=[
        View(10, "service", "Service", "Does the gateway work, and how fast?", None),
        View(30, "audit", "Audit log", "Who changed tenants and keys, and when?", None),
        View(160, "catalogue", "Policies and models", "What is installed, and which rules apply?", KeyRole.READ),
    ],
)

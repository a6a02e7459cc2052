"""The capabilities of the gateway, a row each: nothing registers itself.

The pages of the API show them in this order, and the estimate looks for the marks of their endpoints in it: a request
for `/sanitize` has members that one for `/embed/sentdp` does not have, and `documents` like it.
"""

from service.accounting.endpoints import CAPABILITY as ACCOUNTING
from service.alerts.endpoints import CAPABILITY as ALERTS
from service.batches.endpoints import CAPABILITY as BATCHES
from service.budget.endpoints import CAPABILITY as BUDGET
from service.bulk.job_kind import CAPABILITY as BULK
from service.capability import Capability
from service.dashboard.endpoints import CAPABILITY as DASHBOARD
from service.domains.endpoints import CAPABILITY as DOMAINS
from service.evaluation.job_kind import CAPABILITY as EVALUATION
from service.finetune.endpoints import CAPABILITY as FINETUNE
from service.guardrail.endpoints import CAPABILITY as GUARDRAIL
from service.infill.job_kind import CAPABILITY as INFILL
from service.jobs.endpoints import CAPABILITY as JOBS
from service.openai.endpoints import CAPABILITY as OPENAI
from service.operation.endpoints import CAPABILITY as OPERATION
from service.presidio.endpoints import CAPABILITY as PRESIDIO
from service.proxy.endpoints import CAPABILITY as PROXY
from service.ray.endpoints import CAPABILITY as RAY
from service.restore.endpoints import CAPABILITY as RESTORE
from service.sanitize.endpoints import CAPABILITY as SANITIZE
from service.sentdp.endpoints import CAPABILITY as SENTDP
from service.synthesis.endpoints import CAPABILITY as SYNTHESIS
from service.tenants.endpoints import CAPABILITY as TENANTS
from service.vectors.endpoints import CAPABILITY as VECTORS

CAPABILITIES: tuple[Capability, ...] = (
    SANITIZE,
    RESTORE,
    PRESIDIO,
    SENTDP,
    VECTORS,
    OPENAI,
    PROXY,
    GUARDRAIL,
    TENANTS,  # before the budget, whose last path matches that of a statement
    BUDGET,
    ACCOUNTING,
    JOBS,
    BATCHES,
    RAY,
    DOMAINS,
    INFILL,
    SYNTHESIS,
    FINETUNE,
    BULK,
    EVALUATION,
    ALERTS,
    OPERATION,
    DASHBOARD,
)

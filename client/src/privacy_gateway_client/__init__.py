"""A client of the privacy gateway.

`Gateway` waits for each answer, `AsyncGateway` has the same methods for `await`. Every call that charges has an
idempotency key of its own, which all of its retries keep, so that a lost answer is never paid twice.
"""

from typing import TYPE_CHECKING, Any

from privacy_gateway_client.answers import Embeddings, Job, Partial, Release, Sanitized
from privacy_gateway_client.errors import (
    AnswerInvalid,
    BudgetCapReached,
    BudgetExhausted,
    CacheUnusable,
    ConnectionLost,
    GatewayError,
    InvalidRequest,
    JobCancelled,
    JobFailed,
    NotStarted,
    PlanMismatch,
    Problem,
    Rejected,
    ReleaseGone,
    StreamInterrupted,
    TooManyRequests,
    Unauthorized,
    WorkFailed,
)
from privacy_gateway_client.generated.client import Gateway
from privacy_gateway_client.generated.models import Account, Privacy, SanitizedRow
from privacy_gateway_client.options import BudgetCap, Cache, Limits, Retry, new_cache_key

if TYPE_CHECKING:
    from privacy_gateway_client.asynchronous.client import AsyncGateway

__all__ = [
    "Account",
    "AnswerInvalid",
    "AsyncGateway",
    "BudgetCap",
    "BudgetCapReached",
    "BudgetExhausted",
    "Cache",
    "CacheUnusable",
    "ConnectionLost",
    "Embeddings",
    "Gateway",
    "GatewayError",
    "InvalidRequest",
    "Job",
    "JobCancelled",
    "JobFailed",
    "Limits",
    "NotStarted",
    "Partial",
    "PlanMismatch",
    "Privacy",
    "Problem",
    "Rejected",
    "Release",
    "ReleaseGone",
    "Retry",
    "Sanitized",
    "SanitizedRow",
    "StreamInterrupted",
    "TooManyRequests",
    "Unauthorized",
    "WorkFailed",
    "new_cache_key",
]


def __getattr__(name: str) -> Any:
    """`AsyncGateway` is imported with its first use: asyncio takes a fifth of the time of the whole import."""
    if name != "AsyncGateway":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from privacy_gateway_client.asynchronous.client import AsyncGateway

    return AsyncGateway

"""The exit codes of the command."""

from __future__ import annotations

from privacy_gateway_client.errors import (
    BudgetCapReached,
    BudgetExhausted,
    ConnectionLost,
    Forbidden,
    GatewayError,
    InvalidRequest,
    JobFailed,
    NotStarted,
    PlanMismatch,
    Rejected,
    ReleaseGone,
    StreamInterrupted,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    WorkFailed,
)

DONE = 0
FAILED = 1  # another error
USAGE = 2  # arguments, files, or a request that the gateway refuses
BUDGET = 3  # the budget or the cap does not cover the rest; what was paid is kept
KEY = 4  # the key is missing, unknown or lacks a role
UNREACHABLE = 5  # no answer, or the gateway is not ready; the same command continues
LOST = 6  # a part was charged and its answer is lost; --name with another name buys it again
JOB = 7  # the job failed or was cancelled
STOPPED = 130  # interrupted; the same command continues

_CODES: tuple[tuple[type[GatewayError], int], ...] = (
    (BudgetExhausted, BUDGET),
    (PlanMismatch, BUDGET),
    (BudgetCapReached, BUDGET),
    (Unauthorized, KEY),
    (Forbidden, KEY),
    (InvalidRequest, USAGE),
    (Rejected, USAGE),
    (TooLarge, USAGE),
    (ReleaseGone, LOST),
    (WorkFailed, LOST),
    (ConnectionLost, UNREACHABLE),
    (NotStarted, UNREACHABLE),
    (TooManyRequests, UNREACHABLE),
    (StreamInterrupted, UNREACHABLE),
    (JobFailed, JOB),
)


def code_of(error: GatewayError) -> int:
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)

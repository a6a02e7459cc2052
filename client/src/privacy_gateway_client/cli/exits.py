"""The exit codes of the command."""

from __future__ import annotations

from privacy_gateway_client import errors

DONE = 0
FAILED = 1  # another error
USAGE = 2  # arguments, files, or a request that the gateway refuses
BUDGET = 3  # the budget or the cap does not cover the rest; what was paid is kept
KEY = 4  # the key is missing, unknown or lacks a role
UNREACHABLE = 5  # no answer, or the gateway is not ready; the same command continues
LOST = 6  # a part was charged and its answer is lost; --name with another name buys it again
JOB = 7  # the job failed or was cancelled
STOPPED = 130  # interrupted; the same command continues

# the first one whose classes an error has
_CODES: dict[int, tuple[type[errors.GatewayError], ...]] = {
    BUDGET: (errors.BudgetExhausted, errors.PlanMismatch, errors.BudgetCapReached),
    KEY: (errors.Unauthorized, errors.Forbidden),
    USAGE: (errors.InvalidRequest, errors.Rejected, errors.TooLarge),
    LOST: (errors.ReleaseGone, errors.WorkFailed),
    UNREACHABLE: (errors.ConnectionLost, errors.NotStarted, errors.TooManyRequests, errors.StreamInterrupted),
    JOB: (errors.JobFailed,),
}


def code_of(error: errors.GatewayError) -> int:
    return next((code for code, kinds in _CODES.items() if isinstance(error, kinds)), FAILED)

"""Errors of jobs. `core.errors` has the tree that they belong to.

GatewayError
├── JobNotSucceeded             the artifact of a job that has none
└── JobFailed                   why a job failed; carries a stable `reason`
    ├── BadCorpus               the corpus cannot be used; carries `line` and counts, never content
    ├── JobFilesLost            the job's files are missing or not authentic
    └── JobAttemptsExhausted    the job's process died too often
"""

from __future__ import annotations

from core.errors import GatewayError


class JobNotSucceeded(GatewayError):
    code = "job-not-succeeded"
    title = "The job has no artifact: it has not succeeded, or the artifact is no longer kept."


class JobFailed(GatewayError):
    code = "job-failed"
    title = "The job failed."

    def __init__(
        self, detail: str | None = None, *, reason: str = "internal", line: int | None = None, count: int | None = None
    ) -> None:
        """`reason` is a fixed word; `line` counts from 1; `count` is of whatever the detail speaks of."""
        super().__init__(detail)
        self.reason = reason
        self.line = line
        self.count = count


class BadCorpus(JobFailed):
    code = "bad-corpus"
    title = "The corpus cannot be used."


class JobFilesLost(JobFailed):
    code = "job-files-lost"
    title = "The job's files are missing or not authentic."


class JobAttemptsExhausted(JobFailed):
    code = "job-attempts-exhausted"
    title = "The job's process died too often."

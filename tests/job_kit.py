"""What tests that run a job's function by themselves share."""

from __future__ import annotations


def no_charge() -> None:
    """The charge of a kind that charges nothing."""
    raise AssertionError("this kind of job has no charge")

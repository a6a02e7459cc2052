"""Functions of jobs that use too much, for the limits of a job's process."""

from typing import Any

from gpu_workers.jobs.protocol import Charge, JobOrder, ReportProgress

STEP_BYTES = 64 * 1024 * 1024


def with_numpy(_order: JobOrder, _report: ReportProgress, _charge: Charge) -> dict[str, Any]:
    import numpy as np

    return {"blocks": len([np.ones(STEP_BYTES // 8) for _ in range(1000)])}


def with_torch(_order: JobOrder, _report: ReportProgress, _charge: Charge) -> dict[str, Any]:
    import torch

    return {"blocks": len([torch.ones(STEP_BYTES // 4) for _ in range(1000)])}


def with_python(_order: JobOrder, _report: ReportProgress, _charge: Charge) -> dict[str, Any]:
    return {"blocks": len([bytearray(STEP_BYTES) for _ in range(1000)])}


def modest(_order: JobOrder, _report: ReportProgress, _charge: Charge) -> dict[str, Any]:
    import torch

    return {"sum": float((torch.ones(512, 512) @ torch.ones(512, 512)).sum())}


def other_fault(_order: JobOrder, _report: ReportProgress, _charge: Charge) -> dict[str, Any]:
    raise RuntimeError("something else, with text of a row")

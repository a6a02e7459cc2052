"""The device of a job's process."""

from __future__ import annotations

import torch


def job_device(device: str, threads: int) -> torch.device:
    """Resolve the operator's device (`auto` too) and set the process's torch threads (0: the default of torch)."""
    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    return torch.device(device)

"""Where a job computes."""

from __future__ import annotations

import torch


def job_device(device: str, threads: int) -> torch.device:
    """The operator's device, `auto` resolved; `threads` (0: torch's own choice) holds for this process from now on."""
    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    return torch.device(device)

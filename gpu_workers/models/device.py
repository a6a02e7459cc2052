"""The device of a worker or of a job's process."""

from __future__ import annotations

import torch


def torch_device(device: str, threads: int = 0) -> torch.device:
    """Resolve a device of the operator's setting, and set the process's torch threads (0: the default of torch).

    `auto` is the first GPU that torch finds, else the processor.
    """
    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    return torch.device(device)

"""Embed workers whose numbers have a type that a test chooses, as two processors choose differently."""

from __future__ import annotations

import torch

from gpu_workers.engine.handler import Handler
from gpu_workers.engine.protocol import Role
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.handlers.registry import make_handler
from gpu_workers.models import encoder


def embedder_in(dtype: str) -> Handler:
    """For a process of its own: the choice stays."""
    encoder.fastest_dtype = lambda _: getattr(torch, dtype)
    return make_handler(Role.EMBED, WorkerOptions(device="cpu", threads=1, encoder_precision="float"))

"""What the processes of a run do; nothing that they are given or give back needs more than a number to travel."""

import time
import traceback

import torch
from audits.bug import tried
from audits.kit import Found, Scale
from audits.registry import AUDITS, BUGS


def start() -> None:
    torch.set_num_threads(1)


def audited(index: int, scale: Scale) -> tuple[Found | str, float]:
    """What one audit found, or its error."""
    began = time.monotonic()
    try:
        return AUDITS[index].run(scale), time.monotonic() - began
    except Exception:
        return traceback.format_exc(), time.monotonic() - began


def detected(name: str) -> str | None:
    """What a detector says of the code as it is."""
    return next(bug.detector for bug in BUGS if bug.detector.name == name).flags()


def hunted(index: int) -> str | None:
    """What caught a bug; None if it survived. An error of the bug itself is no catch."""
    try:
        return tried(BUGS[index])
    except Exception:
        traceback.print_exc()
        return None

"""What a worker server writes about its own state, and nothing about requests."""

from __future__ import annotations

import sys


def print_state(text: str) -> None:
    sys.stderr.write(f"privacy-gateway worker: {text}\n")
    sys.stderr.flush()

"""Publish a job's file and its card at several paths: written once, then linked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def publish(save: Callable[[Path], None], card: str, targets: tuple[str, ...]) -> None:
    """Put a file and its card at every target and replace each atomically. `save` writes the first file atomically."""
    first = Path(targets[0])
    for target in map(Path, targets):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    save(first)
    partial_card = first.with_suffix(".md.partial")
    partial_card.write_text(card)
    partial_card.replace(first.with_suffix(".md"))
    for target in map(Path, targets[1:]):
        for suffix in (".md", ".safetensors"):
            link = target.with_name(f".{target.stem}.{os.getpid()}{suffix}.partial")
            link.unlink(missing_ok=True)
            link.hardlink_to(first.with_suffix(suffix))
            link.replace(target.with_suffix(suffix))
            link.unlink(missing_ok=True)  # needed if the target already was the same file

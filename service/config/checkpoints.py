"""Checkpoints of a model hub, each pinned to a commit: a command fetches them, a gateway finds them.

    <data_dir>/checkpoints/<org>--<name>@<commit>/

A serving gateway never asks a hub for anything: what it loads is what the operator fetched, once, as the hub
served it for that commit. Weights are fetched as safetensors alone, and no code.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

_PINNED = re.compile(r"(?P<org>\w[\w.-]*)/(?P<name>\w[\w.-]*)@(?P<commit>[0-9a-f]{40})", re.ASCII)
_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]


def is_pinned(name: str) -> bool:
    """Whether this is `ORG/NAME@COMMIT`, the commit in full: a branch or a tag may move."""
    return _PINNED.fullmatch(name) is not None


def checkpoint_folder(data_dir: Path, name: str) -> Path:
    """Where a pinned checkpoint is or will be. Raises ValueError for another name."""
    pinned = _PINNED.fullmatch(name)
    if pinned is None:
        raise ValueError("a checkpoint is named ORG/NAME@COMMIT, the commit by its 40 hexadecimal digits")
    return data_dir / "checkpoints" / f"{pinned['org']}--{pinned['name']}@{pinned['commit']}"


def fetch(data_dir: Path, name: str) -> Path:
    """Download a checkpoint, unless it is there; whole or not at all. Returns its folder.

    Raises: ValueError for another name, or a checkpoint without safetensors; OSError (among them the hub's own errors)
    where it cannot be had.
    """
    folder = checkpoint_folder(data_dir, name)
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download

    partial = folder.with_name(folder.name + ".partial")
    repository, _, commit = name.partition("@")
    snapshot_download(repository, revision=commit, allow_patterns=_FILES, local_dir=partial)
    if not any(partial.rglob("*.safetensors")):
        shutil.rmtree(partial)
        raise ValueError("the checkpoint has no safetensors weights")
    shutil.rmtree(partial / ".cache", ignore_errors=True)  # the downloader's own notes
    partial.rename(folder)
    return folder

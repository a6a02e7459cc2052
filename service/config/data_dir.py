"""The data directory: the folders of tenants and the names of files, and the checkpoints of a model hub.

    <data_dir>/checkpoints/<org>--<name>@<commit>/

A running gateway never contacts a hub. It loads the files that the operator downloaded for that commit. Only
safetensors weights and configuration are downloaded, no code.
"""

import re
import shutil
from pathlib import Path

from core.errors import InvalidInput
from core.redis.names import SHARED_OWNER, check_tenant

PROCESSES = "processes"  # the folder of what each further gateway of `serve --processes` has for itself
MEASURED = "cache/measured"  # what workers have measured on this machine
NAME = r"[a-z0-9][a-z0-9-]{0,63}"


def check_name(name: str) -> str:
    """`name` itself. Raises InvalidInput."""
    if not re.fullmatch(NAME, name):
        raise InvalidInput("a name is 1 to 64 of a-z, 0-9 and -", field="name")
    return name


def owner_folder(root: Path, owner: str) -> Path:
    """The folder of a tenant, or of the operator, under `root`."""
    return root / "shared" if owner == SHARED_OWNER else root / "tenants" / check_tenant(owner)


_PINNED = re.compile(r"(?P<org>\w[\w.-]*)/(?P<name>\w[\w.-]*)@(?P<commit>[0-9a-f]{40})", re.ASCII)
_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]


def is_pinned(name: str) -> bool:
    """Whether this is `ORG/NAME@COMMIT` with the full commit hash. A branch or a tag could change."""
    return _PINNED.fullmatch(name) is not None


def checkpoint_folder(data_dir: Path, name: str) -> Path:
    """The folder of a pinned checkpoint. Raises ValueError for another name."""
    pinned = _PINNED.fullmatch(name)
    if pinned is None:
        raise ValueError("a checkpoint is named ORG/NAME@COMMIT, the commit by its 40 hexadecimal digits")
    return data_dir / "checkpoints" / f"{pinned['org']}--{pinned['name']}@{pinned['commit']}"


def fetch(data_dir: Path, name: str) -> Path:
    """Download a checkpoint, completely or not at all, unless it exists. Returns its folder.

    Raises: ValueError for another name, or for a checkpoint without safetensors weights; OSError, which includes the
    hub's errors, if the download fails.
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
    shutil.rmtree(partial / ".cache", ignore_errors=True)  # metadata of the downloader
    partial.rename(folder)
    return folder

"""A file of arrays: safetensors, with its format and facts, as JSON, in the metadata. No pickle; without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

Arrays = Mapping[str, np.ndarray[Any, Any]]


def write_tensors(path: Path, kind: str, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """Write the file, whole or not at all. `kind`: its format, by name."""
    partial = path.with_suffix(".partial")
    held = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(held, partial, metadata={"format": kind, "info": json.dumps(facts)})
    partial.replace(path)


def read_tensors(path: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A file's format, facts and arrays. Raises ValueError for what is no such file."""
    try:
        with safe_open(path, framework="np") as stream:
            metadata = stream.metadata() or {}
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (no mapping)
        return metadata["format"], json.loads(metadata["info"]), arrays
    except (OSError, SafetensorError, LookupError, ValueError):
        raise ValueError("not a readable file of a known format") from None

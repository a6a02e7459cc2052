"""A safetensors file of arrays. Its metadata holds the format and, as JSON, facts. No pickle, and no torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

Arrays = Mapping[str, np.ndarray[Any, Any]]


def write_tensors(path: Path, kind: str, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """Write the file atomically. `kind`: the name of its format."""
    partial = path.with_suffix(".partial")
    held = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(held, partial, metadata={"format": kind, "info": json.dumps(facts)})
    partial.replace(path)


def read_tensors(path: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return a file's format, facts and arrays. Raises ValueError for any other file."""
    try:
        with safe_open(path, framework="np") as stream:
            metadata = stream.metadata() or {}
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (no mapping)
        return metadata["format"], json.loads(metadata["info"]), arrays
    except (OSError, SafetensorError, LookupError, ValueError):
        raise ValueError("not a readable file of a known format") from None

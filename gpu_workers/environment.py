"""The environment of child processes: an allow-list, so that keys and passwords stay in the gateway.

Guarantee: a variable reaches a child process only if its name is in `NAMES` or starts with one of `PREFIXES`. None of
them holds a secret by its documented use.
"""

from __future__ import annotations

import os

NAMES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "VIRTUAL_ENV", "LD_LIBRARY_PATH",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE", "TOKENIZERS_PARALLELISM", "ATEN_CPU_CAPABILITY", "LD_PRELOAD",
    }
)  # fmt: skip
PREFIXES = (
    "LC_", "PYTHON", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "MALLOC_", "CUDA_", "CUBLAS_",
    "NVIDIA_", "NCCL_", "TORCH_", "PYTORCH_",
)  # fmt: skip


def allowed(name: str) -> bool:
    """Whether a child process may have this variable."""
    return name in NAMES or name.startswith(PREFIXES)


def child_environment() -> dict[str, str]:
    """Return the part of this process's environment that a child process may have."""
    return {name: value for name, value in os.environ.items() if allowed(name)}


def drop_other_variables() -> None:
    """Remove every other variable from this process, for children that inherit its environment as it is.

    `multiprocessing` starts such children: its workers and its resource tracker. Call this once the settings were read.
    """
    for name in list(os.environ):
        if not allowed(name):
            del os.environ[name]

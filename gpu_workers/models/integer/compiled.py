"""Where numba keeps the compiled kernels of the integer encoder."""

from __future__ import annotations

from pathlib import Path


def keep_compiled(folder: Path | None) -> None:
    """Keep them below this folder, which only this user may write; without one, beside their source.

    Call it before the kernels are imported. numba compiles again for another processor or another source.
    """
    if folder is not None:
        import numba

        numba.config.CACHE_DIR = str(folder / "compiled")  # type: ignore[attr-defined]

"""Where numba keeps the compiled kernels of the integer encoder."""

from __future__ import annotations

import io
import pickletools
from contextlib import suppress
from pathlib import Path


def keep_compiled(folder: Path | None) -> None:
    """Keep them below this folder, which must not be writable for other users; without one, beside their source.

    Call it before the kernels are imported. numba compiles again for another processor, and where the file of the
    kernels has changed. A loss of power can leave files that end early, which numba does not expect: they are removed.
    """
    if folder is None:
        return
    import numba

    compiled = folder / "compiled"
    for path in compiled.rglob("*.nb[ic]"):
        with suppress(OSError):
            if not _whole(path.read_bytes()):
                path.unlink()
    numba.config.CACHE_DIR = str(compiled)  # type: ignore[attr-defined]


def _whole(content: bytes) -> bool:
    """Whether the content is a sequence of pickles, none of which ends early. Nothing of it is executed."""
    stream = io.BytesIO(content)
    try:
        while stream.tell() < len(content):
            for _ in pickletools.genops(stream):
                pass
    except ValueError:
        return False
    return bool(content)

"""Where numba keeps the compiled kernels of the encoder and the tagger in 8-bit integers.

    python -m gpu_workers.models.integer.compiled

This command, a part of the installation, compiles them for the processor of this machine (about 5 s), so that no start
has to.
"""

from __future__ import annotations

import hashlib
import io
import pickletools
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import NamedTemporaryFile

_KERNELS = Path(__file__).parent / "kernels.py"
INSTALLED = Path(__file__).parent / "compiled_kernels"


def keep_compiled(folder: Path | None, installed: Path = INSTALLED) -> None:
    """Keep them below this folder, which must not be writable for other users; without one, beside their source.

    Call it before the kernels are imported. Those of the installation are copied, and those of other versions are
    removed. numba compiles again for another processor. A loss of power can leave files that end early, which numba
    does not expect: they are removed.
    """
    if folder is None:
        return
    import numba

    compiled = folder / "compiled"
    own = compiled / _version(numba.__version__)
    with suppress(OSError):
        for other in compiled.iterdir():
            if other != own:
                rmtree(other, ignore_errors=True)
    for path in own.rglob("*.nb[ic]"):
        with suppress(OSError):
            if not _whole(path.read_bytes()):
                path.unlink()
    with suppress(OSError):
        for path in installed.rglob("*.nb[ic]"):
            _copy(path, own / path.relative_to(installed))
    numba.config.CACHE_DIR = str(own)  # type: ignore[attr-defined]


def _version(numba_version: str) -> str:
    """Of the kernels. numba takes a file with another time for another version."""
    decides = f"{numba_version} {_KERNELS.stat().st_mtime_ns} ".encode() + _KERNELS.read_bytes()
    return hashlib.sha256(decides).hexdigest()[:16]


def _copy(path: Path, to: Path) -> None:
    if to.exists():
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=to.parent, delete=False) as partial:
        partial.write(path.read_bytes())
    Path(partial.name).replace(to)


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


def main() -> None:
    import numba

    rmtree(INSTALLED, ignore_errors=True)
    numba.config.CACHE_DIR = str(INSTALLED)  # type: ignore[attr-defined]
    from gpu_workers.models.integer.encoder import IntegerEncoder

    IntegerEncoder().encode(["A sentence calls every kernel."])


if __name__ == "__main__":
    main()

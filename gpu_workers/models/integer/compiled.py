"""Where numba keeps the compiled kernels of the encoder and the tagger in 8-bit integers.

    python -m gpu_workers.models.integer.compiled

This command, a part of the installation, compiles them for the processor of this machine (about 5 s), so that no start
has to.
"""

import hashlib
import io
import os
import pickletools
from functools import cache
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from stat import S_ISDIR
from tempfile import NamedTemporaryFile, TemporaryDirectory

_KERNELS = Path(__file__).parent / "kernels.py"
_PRIVATE = 0o700
_OF_OTHERS = 0o022
_PICKLES = {".nbi": 2, ".nbc": 1}  # in a file: an index starts with numba's version
INSTALLED = Path(__file__).parent / "compiled_kernels"


def keep_compiled(folder: Path | None, installed: Path = INSTALLED) -> None:
    """Keep them in `compiled` of this folder, or, without a folder, where the installation keeps its own.

    Call it before the kernels are imported. Those of the installation are copied, and those of other versions of the
    kernels are removed. numba compiles again for another processor. What numba keeps is executed: a folder that
    another user owns or may write to is not used. Without a folder that can be written to, they are kept in a temporary
    one as long as the process lives.

    Raises: OSError if that cannot be written to either.
    """
    try:
        if folder is None:
            kept = _checked(installed)
        else:
            compiled = folder / "compiled"
            compiled.mkdir(_PRIVATE, parents=True, exist_ok=True)
            kept = _filled(_own(compiled), installed)
    except OSError:
        kept = _filled(Path(_temporary().name), installed)
    import numba

    numba.config.CACHE_DIR = str(kept)  # type: ignore[attr-defined]


@cache
def _version() -> str:
    """Of numba and of the kernels."""
    return hashlib.sha256(version("numba").encode() + _KERNELS.read_bytes()).hexdigest()[:16]


@cache
def _temporary() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="kernels-")


def _own(compiled: Path) -> Path:
    """Remove other versions. Raises OSError for a folder that is not private."""
    found = compiled.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OF_OTHERS:
        raise PermissionError("the folder of compiled kernels is not private")
    for other in compiled.iterdir():
        if other.name != _version():
            rmtree(other, ignore_errors=True)
    return compiled


def _checked(folder: Path) -> Path:
    """The part of this folder for this version, without files that end early: a loss of power can leave some, and numba
    does not expect them. Raises OSError if it cannot be written to."""
    own = folder / _version()
    own.mkdir(parents=True, exist_ok=True)
    for path in _files(own):
        if not _whole(path.suffix, path.read_bytes()):
            path.unlink(missing_ok=True)
    with NamedTemporaryFile(dir=own):
        return own


def _filled(folder: Path, installed: Path) -> Path:
    own = _checked(folder)
    for path in _files(installed / _version()):
        content = path.read_bytes()
        if _whole(path.suffix, content):
            _write(own / path.relative_to(installed / _version()), content)
    return own


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in _PICKLES]


def _write(path: Path, content: bytes) -> None:
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, delete=False) as partial:
        try:
            partial.write(content)
            partial.flush()
            Path(partial.name).replace(path)
        finally:
            Path(partial.name).unlink(missing_ok=True)


def _whole(suffix: str, content: bytes) -> bool:
    """Whether the content is as many pickles as such a file has, none of which ends early. Nothing of it is
    executed."""
    stream = io.BytesIO(content)
    try:
        for _ in range(_PICKLES[suffix]):
            for _ in pickletools.genops(stream):
                pass
    except ValueError:
        return False
    return stream.tell() == len(content)


def main() -> None:
    rmtree(INSTALLED, ignore_errors=True)
    keep_compiled(None)
    from gpu_workers.models.integer.encoder import IntegerEncoder

    IntegerEncoder().encode(["A sentence calls every kernel."])


if __name__ == "__main__":
    main()

"""The device of a worker or of a job's process, and what was measured on it, kept for the next start.

A measurement is kept under everything that decides its result: the processor with its microcode, caches and
instructions, the build of torch, the environment of its libraries, the number of threads, the code of this package, and
what the caller adds. If one of them differs, nothing is found, and the caller measures again.
"""

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from gpu_workers.fork_server import PREFIXES


def torch_device(device: str, threads: int = 0) -> torch.device:
    """Resolve a device of the operator's setting, and set the process's torch threads (0: the default of torch).

    `auto` is the first GPU that torch finds, else the processor.
    """
    if threads:
        torch.set_num_threads(threads)
    if device == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


_VARY = {"processor", "cpu MHz", "bogomips", "BogoMIPS", "apicid", "initial apicid", "core id", "physical id"}
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_BYTES_MAX = 4096


def machine() -> dict[str, str]:
    """What of this machine and process decides how torch computes."""
    return {
        "processor": "\n".join(_cpuinfo()),
        "caches": " ".join(_caches()),
        "architecture": platform.machine(),
        "torch": torch.__version__ + torch.__config__.show() + torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "environment": repr(sorted(item for item in os.environ.items() if item[0].startswith(PREFIXES))),
        "code": digest_of(Path(__file__).parent),
    }


def digest_of(folder: Path) -> str:
    """Return a digest of the names and contents of all Python files in a folder."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()}\n{content}\n".encode())
    return whole.hexdigest()


def _cpuinfo() -> list[str]:
    """The description of the first processor, without what varies between equal ones."""
    try:
        first = _CPUINFO.read_text(errors="replace").split("\n\n")[0]
    except OSError:
        return []
    return [line for line in first.splitlines() if line.partition(":")[0].strip() not in _VARY]


def _caches() -> list[str]:
    """The size of each cache. Libraries divide their work by it."""
    sizes = []
    for path in sorted(_CACHES.glob("index*/size")):
        with suppress(OSError):
            sizes.append(path.read_text().strip())
    return sizes


class Measured:
    """Measurements in a folder, one file each. A file that cannot be read or written is as none."""

    def __init__(self, folder: Path | None) -> None:
        """Without a folder, nothing is kept."""
        self._folder = folder

    def find(self, name: str, **decides: str) -> Mapping[str, Any] | None:
        """What was kept for `name` and `decides` on this machine."""
        if self._folder is None or not _cpuinfo():
            return None
        try:
            with self._path(name, decides).open("rb") as file:
                found = json.loads(file.read(_BYTES_MAX))
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def agree(self, value: Mapping[str, Any], name: str, **decides: str) -> Mapping[str, Any]:
        """Keep `value`, unless another process has kept one meanwhile. Returns what all processes find from then on; on
        a machine where nothing can be kept, `value`."""
        self._write(value, name, decides, os.link)
        found = self.find(name, **decides)
        if found is None:
            self.keep(value, name, **decides)  # a torn file
        return found or value

    def keep(self, value: Mapping[str, Any], name: str, **decides: str) -> None:
        """Keep `value` for `find`, in place of what was kept."""
        self._write(value, name, decides, os.replace)

    def _write(
        self, value: Mapping[str, Any], name: str, decides: Mapping[str, str], put: Callable[[str, Path], None]
    ) -> None:
        if self._folder is None or not _cpuinfo():  # processors cannot be distinguished
            return
        path = self._path(name, decides)
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft, draft_path = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(draft, "w") as file:
                    json.dump(value, file)
                put(draft_path, path)
            finally:
                Path(draft_path).unlink(missing_ok=True)

    def _path(self, name: str, decides: Mapping[str, str]) -> Path:
        assert self._folder is not None
        facts = json.dumps([name, decides, machine()], sort_keys=True)
        return self._folder / f"{name}-{hashlib.sha256(facts.encode()).hexdigest()}.json"

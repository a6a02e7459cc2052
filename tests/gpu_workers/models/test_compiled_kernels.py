"""Compiled kernels are kept for the next start, and no file that is broken, old or of another user is used."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tiers import cells

pytestmark = pytest.mark.usefixtures("processes")

CODE = (
    "import sys, pathlib\n"
    "from gpu_workers.models.integer.compiled import keep_compiled\n"
    "keep_compiled(*[pathlib.Path(path) if path else None for path in sys.argv[1:]])\n"
    "from gpu_workers.models.integer import kernels\n"
    "import numpy as np\n"
    "kernels._highest(np.ones((3, 3), np.float32), 3, np.ones(3, np.float32))\n"
    "import numba\n"
    "print(sum(kernels._highest.stats.cache_hits.values()), numba.config.CACHE_DIR)\n"
)


class Started(NamedTuple):
    """`found`: whether it compiled nothing. `kept`: where the kernels are."""

    found: bool
    kept: Path


def start(folder: Path | str, installed: Path, **environment: str) -> Started:
    """A process that calls a kernel."""
    command = [sys.executable, "-c", CODE, str(folder), str(installed)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment)
    hits, _, kept = done.stdout.strip().partition(" ")
    return Started(hits == "1", Path(kept))


def files(kept: Path) -> list[Path]:
    return sorted(kept.glob("*/kernels._highest*"))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the compiled kernel."""
    folder = tmp_path / "installed"
    assert not start("", folder).found
    assert start("", folder).found
    return folder


@pytest.fixture
def nothing(tmp_path: Path) -> Path:
    return tmp_path / "nothing"


def test_a_start_uses_what_an_earlier_one_has_compiled(tmp_path: Path, nothing: Path) -> None:
    first = start(tmp_path, nothing)
    assert not first.found
    assert {path.suffix for path in files(first.kept)} == {".nbi", ".nbc"}
    assert start(tmp_path, nothing) == Started(True, first.kept)
    assert (tmp_path / "compiled").stat().st_mode & 0o777 == 0o700


def test_a_start_uses_what_the_installation_has_compiled(tmp_path: Path, installed: Path) -> None:
    old = tmp_path / "data" / "compiled" / "another-version"
    old.mkdir(parents=True)
    assert start(tmp_path / "data", installed).found
    assert not old.exists()


@pytest.mark.parametrize("lost", cells([None, 1]))
def test_files_that_a_loss_of_power_has_cut_are_compiled_again(tmp_path: Path, nothing: Path, lost: int | None) -> None:
    kept = start(tmp_path, nothing).kept
    for path in files(kept):
        whole = path.read_bytes()
        index_alone = [21] if path.suffix == ".nbi" else []  # the first of its two parts
        for size in [0, *index_alone] if lost is None else [len(whole) - lost]:
            os.truncate(path, size)
            assert start(tmp_path, nothing) == Started(False, kept)
            assert start(tmp_path, nothing) == Started(True, kept)


def test_broken_files_of_the_installation_are_not_copied(tmp_path: Path, installed: Path) -> None:
    for path in installed.rglob("*.nb[ic]"):
        os.truncate(path, path.stat().st_size - 1)
    assert not start(tmp_path / "data", installed).found
    assert start(tmp_path / "data", installed).found


def unusable(kind: str, folder: Path) -> None:
    compiled = folder / "compiled"
    if kind == "not a folder":
        folder.mkdir()
        compiled.write_text("")
    elif kind == "a link":
        folder.mkdir()
        (folder / "elsewhere").mkdir(mode=0o700)
        compiled.symlink_to(folder / "elsewhere")
    else:
        compiled.mkdir(parents=True)
        if kind == "writable by others":
            compiled.chmod(0o777)
        else:
            os.chown(compiled, 65534, 65534)


@pytest.mark.parametrize("kind", cells(["writable by others", "not a folder", "a link", "of another user"]))
def test_a_folder_that_cannot_be_trusted_is_replaced_by_a_temporary_one(
    kind: str, tmp_path: Path, installed: Path
) -> None:
    if kind == "of another user" and os.geteuid():
        pytest.skip("only root can give a folder away")
    (tmp_path / "tmp").mkdir()
    unusable(kind, tmp_path / "data")
    found, kept = start(tmp_path / "data", installed, TMPDIR=str(tmp_path / "tmp"))
    assert found
    assert kept.is_relative_to(tmp_path / "tmp")
    assert not list((tmp_path / "tmp").iterdir())  # it went with the process

"""The wheel: built from the files that the Dockerfile copies, installed, started in an empty folder; name clashes."""

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_kit import LEAN, Gateway, clean_environment

pytestmark = pytest.mark.slow("installation")

ROOT = Path(__file__).parent.parent
ISOLATED = {"PYTHONPATH": ""}  # the source tree must not stand in for the wheel


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=clean_environment() | ISOLATED | environment,
        capture_output=True, text=True, timeout=170,
    )  # fmt: skip


def pip(*arguments: str | Path, cwd: Path) -> None:
    done = run(sys.executable, "-m", "pip", *arguments, "--quiet", "--no-index", "--no-deps", cwd=cwd)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for name in " ".join(copied).split():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", "--wheel-dir", out, source, cwd=out)
    return next(out.glob("*.whl"))


def install(wheel: Path, folder: Path) -> Path:
    """A fresh environment with the wheel in it, and beside it the libraries of the one that runs the tests."""
    made = run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    assert made.returncode == 0, made.stderr
    pip("--python", folder / "bin" / "python", "install", wheel, cwd=folder.parent)
    (packages(folder) / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def packages(environment: Path) -> Path:
    return next((environment / "lib").glob("python*")) / "site-packages"


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("environment") / "venv")


@pytest.fixture
def running(environment: Path, tmp_path: Path) -> Iterator[Gateway]:
    """The installed command, started in a folder whose only content has the name of a package."""
    folder = tmp_path / "elsewhere"
    (folder / "core").mkdir(parents=True)
    (folder / "core" / "__init__.py").write_text("raise ImportError('the package of somebody else')\n")
    started = Gateway(
        tmp_path / "data", LEAN | ISOLATED, command=(str(environment / "bin" / "privacy-gateway"),), folder=folder
    )
    yield started
    started.stop()


def test_the_installed_command_embeds_a_document_from_any_folder(running: Gateway, environment: Path) -> None:
    answer = running.tenant().embed()
    assert answer.status_code == 200, answer.text
    assert answer.json()["privacy"]["guarantee"] == "pure-dp"
    assert str(environment) in Path(f"/proc/{running.pid_of('gpu_workers.engine.worker')}/cmdline").read_text()


def test_the_wheel_holds_every_file_of_the_packages_and_the_licences(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    tracked = run("git", "ls-files", "core", "service", "gpu_workers", cwd=ROOT).stdout.splitlines()
    assert set(tracked) <= held
    assert {name.rpartition("/")[2] for name in held if "/licenses/" in name} == {"LICENSE", "NOTICE"}


def test_a_package_in_front_of_ours_is_noticed(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "__init__.py").touch()
    (tmp_path / "core").mkdir()
    by_path = run(environment / "bin" / "privacy-gateway", "--help", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    by_folder = run(environment / "bin" / "python", "-m", "privacy_gateway", "--help", cwd=tmp_path)
    for refused in (by_path, by_folder):
        assert refused.returncode == 1
        assert f"service is {tmp_path}/service/__init__.py, not {environment}" in refused.stderr
        assert "core is" not in refused.stderr  # a folder without __init__.py does not shadow a package
        assert "environment of its own" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_another_distribution_that_overwrites_a_package_is_noticed(wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "core").mkdir(parents=True)
    (other / "core" / "__init__.py").write_text("VERSION = 1\n")
    (other / "pyproject.toml").write_text(
        '[project]\nname = "other"\nversion = "1"\n[tool.setuptools]\npackages = ["core"]\n'
    )
    mine = install(wheel, tmp_path / "venv")
    pip("--python", mine / "bin" / "python", "install", "--no-build-isolation", other, cwd=tmp_path)
    refused = run(mine / "bin" / "privacy-gateway", "--help", cwd=tmp_path)
    assert refused.returncode == 1
    assert f"core was overwritten by another distribution: {packages(mine)}/core/__init__.py" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_package_that_is_missing_is_noticed(wheel: Path, tmp_path: Path) -> None:
    mine = install(wheel, tmp_path / "venv")
    shutil.rmtree(packages(mine) / "gpu_workers")
    refused = run(mine / "bin" / "privacy-gateway", "--help", cwd=tmp_path)
    assert refused.returncode == 1
    assert "gpu_workers is not installed" in refused.stderr

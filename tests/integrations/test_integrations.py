"""Each integration of the client against a real gateway, in an environment with the library.

`tests/integrations/install` makes the environments. A suite whose environment is missing is skipped.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_kit import Gateway, clean_environment
from topic_corpus import write_corpus

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/requirements.txt"))
SUITE_S_MAX = 540

pytestmark = pytest.mark.slow("peer")


def environment(name: str) -> Path:
    return ROOT / f".venv-integration-{name}"


def suite(name: str) -> object:
    missing = not (environment(name) / "installed").exists()
    reason = f"{name} is not installed: tests/integrations/install {name}"
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason=reason))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("integrations") / "data", {"PRIVACY_GATEWAY_INFILL": "off"})
    yield gateway
    gateway.stop()


@pytest.mark.parametrize("name", [suite(name) for name in NAMES])
def test_the_suite_of_an_integration_passes(name: str, served: Gateway, tmp_path: Path) -> None:
    variables = {
        "INTEGRATION_GATEWAY_URL": served.url,
        "INTEGRATION_ADMIN_KEY": (served.data_dir / "admin.key").read_text().strip(),
        "HOME": str(tmp_path),  # libraries keep files there
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "PYTHONDONTWRITEBYTECODE": "",  # the libraries are compiled once, when they are first imported
    }
    if name == "vector_stores":
        write_corpus(tmp_path / "corpus.npz")
        variables["INTEGRATION_CORPUS"] = str(tmp_path / "corpus.npz")
    options = ["-q", "-c", FOLDER / "suites.ini", "--confcutdir", FOLDER / name, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [environment(name) / "bin/python", "-m", "pytest", "-s", *options, FOLDER / name],
        cwd=tmp_path,
        env=clean_environment() | variables,
        capture_output=True,
        text=True,
        timeout=SUITE_S_MAX,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


@pytest.mark.parametrize("name", [suite(name) for name in NAMES])
def test_no_environment_has_torch(name: str) -> None:
    code = "import importlib.util; raise SystemExit(importlib.util.find_spec('torch') is not None)"
    assert subprocess.run([environment(name) / "bin/python", "-c", code], timeout=60).returncode == 0

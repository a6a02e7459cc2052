"""Each integration of the client against a real gateway, in an environment with the library.

`tests/integrations/install` makes the environments. A suite whose environment is missing is skipped. The system tier
runs the examples of the guide, and the slow one the rest of each suite.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_kit import Gateway, clean_environment

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/requirements.txt"))
SUITE_S_MAX = 540

EXAMPLES = "of_the_guide"  # in the names of their tests
EXAMPLES_ALONE = ("vector_stores", "generated_client")


def environment(name: str) -> Path:
    return ROOT / f".venv-integration-{name}"


def suite(name: str, *marks: pytest.MarkDecorator) -> object:
    missing = not (environment(name) / "installed").exists()
    reason = f"{name} is not installed: tests/integrations/install {name}"
    return pytest.param(name, marks=[pytest.mark.skipif(missing, reason=reason), *marks])


@pytest.fixture(scope="module")
def served(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("integrations") / "data", {"PRIVACY_GATEWAY_INFILL": "off"})
    yield gateway
    gateway.stop()


def run_suite(name: str, served: Gateway, folder: Path, chosen: str) -> None:
    variables = {
        "INTEGRATION_GATEWAY_URL": served.url,
        "INTEGRATION_ADMIN_KEY": served.admin_key,
        "HOME": str(folder),  # libraries keep files there
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "PYTHONDONTWRITEBYTECODE": "",  # the libraries are compiled once, when they are first imported
    }
    options = ["-q", "-c", FOLDER / "suites.ini", "--confcutdir", FOLDER / name, "-p", "no:cacheprovider", "-k", chosen]
    done = subprocess.run(
        [environment(name) / "bin/python", "-m", "pytest", "-s", *options, FOLDER / name], cwd=folder,
        env=clean_environment() | variables, capture_output=True, text=True, timeout=SUITE_S_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


@pytest.mark.parametrize("name", [suite(name) for name in NAMES])
def test_the_examples_of_an_integration_run(name: str, served: Gateway, tmp_path: Path) -> None:
    run_suite(name, served, tmp_path, EXAMPLES)


@pytest.mark.parametrize(
    "name", [suite(name, pytest.mark.slow("peer")) for name in NAMES if name not in EXAMPLES_ALONE]
)
def test_the_rest_of_the_suite_of_an_integration_passes(name: str, served: Gateway, tmp_path: Path) -> None:
    run_suite(name, served, tmp_path, f"not {EXAMPLES}")
    without_torch = "import importlib.util; raise SystemExit(importlib.util.find_spec('torch') is not None)"
    assert subprocess.run([environment(name) / "bin/python", "-c", without_torch], timeout=60).returncode == 0

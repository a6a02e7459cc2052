"""The client as a distribution: its wheel, what an installation needs, how long its import takes, Python 3.10."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "client/src/privacy_gateway_client"
HEAVY = {"torch", "numpy", "cryptography", "rich", "tqdm", "scipy", "transformers", "fastapi"}


@pytest.mark.usefixtures("processes")
def test_an_import_loads_nothing_that_is_optional() -> None:
    def loaded(names: str) -> set[str]:
        code = f"import sys, {names}; print(*sys.modules)"
        return set(
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        )

    added = loaded("httpx, privacy_gateway_client") - loaded("httpx")
    assert not HEAVY & {name.split(".")[0] for name in added}
    assert not [name for name in added if name.startswith("privacy_gateway_client.integrations")]


def test_the_source_is_valid_for_the_oldest_python() -> None:
    for path in SOURCE.rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 10))


def test_every_integration_has_an_extra_and_its_tested_version_in_the_guide() -> None:
    extras = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]["optional-dependencies"]
    guide = (ROOT / "docs/guide/integrations.md").read_text()
    named = {
        extra
        for path in (SOURCE / "integrations").glob("*.py")
        for extra in re.findall(r"pip install privacy-gateway-client\[(.+?)\]", path.read_text())
    }
    assert named == extras.keys() - {"numpy", "cache", "progress"}
    assert all(f"| `{extra}` |" in guide for extra in named)
    for path in (ROOT / "tests/integrations").glob("*/requirements.txt"):
        for version in re.findall(r"==(\S+)", path.read_text()):
            assert f" {version}" in guide, f"{path.parent.name}: {version}"


@pytest.mark.slow("installation")
def test_the_wheel_is_small_and_complete(tmp_path: Path) -> None:
    source = tmp_path / "client"
    shutil.copytree(ROOT / "client", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    made = subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
            "--wheel-dir", str(tmp_path), str(source),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 200_000
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        metadata = content.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert "privacy_gateway_client/py.typed" in names
    assert all(f"privacy_gateway_client/{path.relative_to(SOURCE)}" in names for path in SOURCE.rglob("*.py"))
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra" not in line]
    assert len(needed) == 3


@pytest.mark.usefixtures("processes")
def test_vectors_need_no_numpy() -> None:
    """A process in which NumPy cannot be imported sends lists and receives arrays of the standard library."""
    code = """
import sys
sys.modules["numpy"] = None
import httpx
from privacy_gateway_client import Gateway
from privacy_gateway_client.wire import Tensor, written
def answer(request):
    tensor = Tensor(request.read(), "vectors")
    zero = '{"epsilon": 0, "delta": 0}'
    sums = ", ".join(f'"{name}": {zero}' for name in ("limit", "committed", "reserved", "remaining"))
    account = '"account": "a/vector", "unit": "vector", "adjacency": "metric", "kind": "filter", "accountants": []'
    blocks = {"privacy": '{"guarantee": "metric-dp"}', "budget": f"{{{account}, {sums}}}"}
    return httpx.Response(200, content=written("embeddings", tensor.kind, tensor.shape, tensor.numbers, **blocks))
with Gateway("http://gateway", "key", transport=httpx.MockTransport(answer)) as client:
    print([list(row) for row in client.embed_vectors([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], epsilon=1).vectors])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]\n"

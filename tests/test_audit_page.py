"""The page of the audits belongs to the present code, and its digests cover what matters."""

from pathlib import Path

import pytest
from audits.audited import AUDITED, RECORD, ROOT, SUMMARY, digest_of, digests, recorded
from audits.page import sections, summary
from audits.registry import codes


@pytest.mark.slow("documentation")  # `make audit` runs before an issue is resolved, not at each change
def test_the_page_of_the_audits_is_of_this_code() -> None:
    record, current = RECORD.read_text(), codes(digests())
    on_page = recorded(record)
    newer = [title for title in current if on_page.get(title) != current[title]]
    assert not newer, f"code is newer than in tests/audits/last_run.md ({', '.join(newer)}): run `make audit-changed`"
    assert sections(record).keys() == current.keys()


def test_the_page_is_the_summary_of_the_record() -> None:
    assert SUMMARY.read_text() == summary(RECORD.read_text()), "run `make audit`, or write the summary again"


def test_every_audited_path_exists() -> None:
    gone = [path for paths in AUDITED.values() for path in paths if not (ROOT / path).exists()]
    assert not gone, "tests/audits/audited.py names files that are no longer there"


def digest(folder: Path, source: str, name: str = "one.py") -> str:
    (folder / name).write_text(source)
    return digest_of(folder, (name,))


SOURCE = '''"""Of a module."""

LIMIT = 2  # why


def draw(x: int) -> int:
    """What it does."""
    return x * LIMIT
'''


def test_what_the_code_does_is_digested_without_layout_comments_and_docstrings(tmp_path: Path) -> None:
    same = {
        "LIMIT = 2  # why": "\n# another reason\nLIMIT = 2",
        '"""What it does."""': '"""What it does,\n    in other words."""',
        '"""Of a module."""\n': "",
        "return x * LIMIT": "return (\n        x * LIMIT\n    )",
    }
    for old, new in same.items():
        assert digest(tmp_path, SOURCE) == digest(tmp_path, SOURCE.replace(old, new)), new
    for old, new in {"LIMIT = 2": "LIMIT = 3", "x * LIMIT": "x + LIMIT", "draw": "drawn"}.items():
        assert digest(tmp_path, SOURCE) != digest(tmp_path, SOURCE.replace(old, new)), new


def test_a_definition_is_digested_without_the_file_that_it_is_in(tmp_path: Path) -> None:
    law = "import math\n\n\ndef law(x: float) -> float:\n    return math.exp(x)\n"
    draw = "from core import law\n\n\ndef draw(x: float) -> float:\n    return law.law(x)\n"
    both = draw.replace("from core import law", "import math").replace("law.law", "law") + law.removeprefix(
        "import math"
    )
    trees = {
        "apart": {"law": law, "draw": draw},
        "joined": {"laws": both},
        "changed": {"laws": both.replace("exp", "log")},
    }
    for tree, modules in trees.items():
        (tmp_path / tree / "core").mkdir(parents=True)
        for name, source in modules.items():
            (tmp_path / tree / "core" / f"{name}.py").write_text(source)
    apart, joined, changed = (digest_of(tmp_path / tree, ("core",)) for tree in trees)
    assert apart == joined != changed


def test_scripts_of_the_ledger_are_digested_without_comments(tmp_path: Path) -> None:
    first = digest(tmp_path, "-- adds\nlocal sum = a + b\n", "one.lua")
    assert first == digest(tmp_path, "local sum =  a + b -- adds both\n", "one.lua")
    assert first != digest(tmp_path, "local sum = a - b\n", "one.lua")

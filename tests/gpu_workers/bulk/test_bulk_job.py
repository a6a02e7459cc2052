"""A bulk release is one draw of each document and one charge of each part, whatever ends its process."""

import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_kit import written_order

from core.errors import JobFailed, TaskFailed
from gpu_workers.bulk import job
from gpu_workers.bulk.job import BulkSpec
from gpu_workers.bulk.readers import Columns
from gpu_workers.bulk.sources import BulkRow
from gpu_workers.bulk.stores import StoreAccess
from gpu_workers.bulk.targets import StoreTarget
from gpu_workers.jobs.protocol import JobOrder


class Killed(BaseException):
    """The end of a process."""


@dataclass
class Life:
    """Ends at its last step. A step is before and after each draw, write and answer of the ledger."""

    steps: int = 10**9

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Killed


@dataclass
class Books:
    """The ledger of one job: what the gateway answers, in every attempt. `admitted`: how many parts fit the budget."""

    admitted: int = 10**9
    life: Life = field(default_factory=Life)
    held: dict[int, int] = field(default_factory=dict)
    subjects: dict[int, Mapping[str, int] | None] = field(default_factory=dict)
    spent: Counter[int] = field(default_factory=Counter)

    def hold(self, part: int, rows: int, subjects: Mapping[str, int] | None = None, /) -> bool:
        self.life.step()
        if part not in self.held and len(self.held) == self.admitted:
            return False
        self.held[part], self.subjects[part] = rows, subjects
        self.life.step()
        return True

    def ask(self, part: int, /) -> None: ...

    def __call__(self, part: int | None = None, /) -> None:
        self.life.step()
        assert part in self.held
        self.spent[part] = 1
        self.life.step()


@dataclass(frozen=True)
class Noise:
    """Draws a number for each row, and remembers every draw. A text `bad` fails."""

    books: Books
    schema: Any = field(default_factory=lambda: {"value": "string"})

    def refused(self, row: BulkRow) -> str | None:
        return "refused" if row.text == "refused" else None

    def released(self, handler: Any, rows: Sequence[BulkRow]) -> list[Any]:
        self.books.life.step()
        assert self.books.spent[rows[0].number // 3] == 1, "drawn before its charge"
        drawn = [TaskFailed() if row.text == "bad" else {"value": secrets.token_hex(4)} for row in rows]
        self.books.life.step()
        return drawn


class Nothing:
    """A handler."""

    def warm_up(self) -> None: ...


def order_of(folder: Path, books: Books, texts: Sequence[str], **changed: Any) -> JobOrder:
    rows = "".join(json.dumps({"text": text, "id": number}) + "\n" for number, text in enumerate(texts))
    spec = BulkSpec(
        release="a" * 32, artifact=folder / "out" / "r.jsonl", handler=Nothing, releaser=Noise(books),  # type: ignore[arg-type]
        columns=Columns("text", id="id"), format="jsonl", chars_max=99, target_format="jsonl", charged=True,
        fitting=False, facts={"privacy": {"epsilon": 3}},
    )  # fmt: skip
    return written_order("release", folder / "job", replace(spec, **changed), rows.encode())


def quiet(*_: Any) -> None:
    """A progress report that nobody reads."""


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "PART_ROWS", 3)
    write = StoreTarget.write

    def written(target: StoreTarget, number: int, data: bytes) -> Any:
        books = _BOOKS[-1]
        books.life.step()
        found = write(target, number, data)
        books.life.step()
        return found

    monkeypatch.setattr(StoreTarget, "write", written)


_BOOKS: list[Books] = [Books()]
TEXTS = ["one", "two", "refused", "four", "bad", "six", "", "eight"]


@settings(max_examples=40, deadline=None, database=None)
@given(lives=st.lists(st.integers(0, 12), max_size=4), to_store=st.booleans())
def test_whatever_is_killed_each_part_is_charged_once_and_what_was_written_stands(
    tmp_path_factory: pytest.TempPathFactory, lives: list[int], to_store: bool
) -> None:
    folder = tmp_path_factory.mktemp("release")
    books = Books()
    _BOOKS.append(books)
    target = (StoreAccess("out", f"file://{folder}"), "results") if to_store else None
    order = order_of(folder, books, TEXTS, target=target)
    seen: dict[str, bytes] = {}
    for steps in [*lives, None]:
        books.life = Life() if steps is None else Life(steps)
        try:
            result = job.JOB(order, quiet, books)
        except Killed:
            assert steps is not None
        for path in (folder / "results").glob("part-*"):
            assert seen.setdefault(path.name, path.read_bytes()) == path.read_bytes(), "a written part was replaced"
    assert books.spent == {0: 1, 1: 1, 2: 1}
    assert books.held == {0: 2, 1: 3, 2: 1}
    assert result == {"rows": 8, "written": 6, "unreadable": 2, "not_admitted": 0, "parts": 3, "bytes": result["bytes"]}
    manifest = json.loads((folder / "out" / "r.json").read_text())
    assert [(row["row"], row["problem"]) for row in manifest["left_out"]] == [(2, "refused"), (6, "empty")]
    files = sorted((folder / "results").glob("part-*")) if to_store else [folder / "out" / "r.jsonl"]
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert [(row["row"], row["id"], row["problem"]) for row in rows] == [
        (0, "0", None), (1, "1", None), (3, "3", None), (4, "4", "task-failed"), (5, "5", None), (7, "7", None),
    ]  # fmt: skip
    assert all((row["value"] is None) == (row["problem"] is not None) for row in rows)


@pytest.mark.parametrize(("fitting", "admitted"), [(False, 2), (True, 0)])
def test_a_budget_that_admits_too_little_releases_nothing(tmp_path: Path, fitting: bool, admitted: int) -> None:
    books = Books(admitted=admitted)
    with pytest.raises(JobFailed) as refused:
        job.JOB(order_of(tmp_path, books, TEXTS, fitting=fitting), quiet, books)
    assert (refused.value.reason, books.spent) == ("budget-exhausted", {})


def test_as_many_parts_as_the_budget_admits_are_released_where_the_caller_says_so(tmp_path: Path) -> None:
    books = Books(admitted=2)
    result = job.JOB(order_of(tmp_path, books, TEXTS, fitting=True), quiet, books)
    assert (result["written"], result["not_admitted"], books.spent) == (5, 2, {0: 1, 1: 1})
    assert len((tmp_path / "out" / "r.jsonl").read_text().splitlines()) == 5


def test_a_source_without_a_readable_row_costs_nothing_and_says_why(tmp_path: Path) -> None:
    books = Books()
    with pytest.raises(JobFailed) as refused:
        job.JOB(order_of(tmp_path, books, ["", "refused", ""]), quiet, books)
    assert (refused.value.reason, refused.value.count, books.held) == ("empty", 3, {})


def test_the_rows_of_each_subject_are_held_in_their_part(tmp_path: Path) -> None:
    books = Books()
    rows = "".join(json.dumps({"text": "one", "who": who}) + "\n" for who in ["ann", "bob", "ann", "bob", None])
    order = order_of(tmp_path, books, [])
    spec = replace(order.spec, columns=Columns("text", subject="who"))
    result = job.JOB(written_order("release", tmp_path / "other", spec, rows.encode()), quiet, books)
    assert books.subjects == {0: {"ann": 2, "bob": 1}, 1: {"bob": 1}}
    assert result["unreadable"] == 1

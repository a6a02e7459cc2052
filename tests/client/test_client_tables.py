"""Tables of a file by the command: a messy one becomes synthetic rows, and its faults are listed all at once."""

from __future__ import annotations

import csv
import json
import random
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from gateway_kit import Gateway, Tenant

from privacy_gateway_client.cli import main as command
from privacy_gateway_client.cli.main import KEY_VARIABLE, main
from privacy_gateway_client.cli.tables import described, table
from privacy_gateway_client.generated.models import TableFault

SECRET = "s3cr3t"
HEADER = ["customer_id", "Joined", "Amount", "Town", "Newsletter", "Grade", "renews"]
SCHEMA: dict[str, Any] = {
    "columns": [
        {"name": "Joined", "kind": "date", "minimum": "2015-01-01", "maximum": "2024-12-31", "format": "%d.%m.%Y",
         "missing": True},
        {"name": "Amount", "kind": "numeric", "minimum": 1, "maximum": 1_000_000, "scale": "log", "points": [0],
         "decimal": ",", "thousands": ".", "missing": ["n/a"]},
        {"name": "Town", "kind": "categorical", "categories": [f"town {i}" for i in range(300)]},
        {"name": "Newsletter", "kind": "boolean", "true": "Yes", "false": "No"},
        {"name": "Grade", "kind": "categorical", "categories": [1, 2, 3], "missing": True},
    ],
    "label": {"name": "renews", "kind": "boolean"},
    "ignore": ["customer_id"],
}  # fmt: skip


def german(number: float) -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def messy(count: int) -> list[list[str]]:
    draw = random.Random(3)
    return [
        [
            f"C-{i:05}",
            draw.choice(["", f"{draw.randint(1, 28):02}.{draw.randint(1, 12):02}.{draw.randint(2015, 2024)}"]),
            draw.choice(["0", "n/a", *[german(draw.lognormvariate(5.6, 1.2) + 1)] * 6]),
            f"town {min(299, int(draw.expovariate(0.05)))}",
            draw.choice(["Yes", "No", "YES"]),
            draw.choice(["1", "2", "3.0", ""]),
            draw.choice(["true", "false", "1", "0"]),
        ]
        for i in range(count)
    ]


def written(path: Path, rows: list[list[str]], header: list[str] = HEADER) -> Path:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        table = csv.writer(file, delimiter=";")
        table.writerow(header)
        table.writerows(rows)
    return path


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    return [
        "synthesize", "--schema", str(tmp_path / "schema.json"), "--data", str(tmp_path / "rows.csv"), "--method",
        "marginals", "--epsilon", "3", "--delta", "1e-5", "--row-count", "public", "--out", str(tmp_path / "made"),
    ]  # fmt: skip


@pytest.fixture
def owner(real_gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Tenant:
    tenant = real_gateway.tenant(record={"epsilon": 50, "delta": 1e-3})
    monkeypatch.setenv(KEY_VARIABLE, tenant.key)
    monkeypatch.setattr(command, "URL_DEFAULT", real_gateway.url)
    return tenant


def test_a_messy_file_becomes_synthetic_rows(owner: Tenant, arguments: list[str], tmp_path: Path, capsys: Any) -> None:
    good = messy(2_000)
    rows = [list(row) for row in good]
    rows[3][2] = rows[7][2] = f"1,234.5{SECRET}"
    rows[8][1], rows[9][1] = "2024-01-31", "31.12.2025"
    rows[10][3], rows[11][5] = SECRET, "4"
    rows[12] = rows[12][:5]
    rows[13] = [*rows[13], SECRET]
    written(tmp_path / "rows.csv", rows, [name.replace("Newsletter", "Newsleter") for name in HEADER])
    url = ["--url", command.URL_DEFAULT]
    assert main([*arguments, *url]) == command.USAGE
    shown = capsys.readouterr().err
    for part in (
        "line 5, 9: column Amount: not-a-number; permitted: a number such as 1.234,5 from 1 to 1000000, or 0",
        "line 10: column Joined: not-a-date; permitted: a date such as 01.01.2015",
        "line 11: column Joined: outside-bounds", "line 12: column Town: unknown-category; permitted: one of town 0",
        "line 13: column Grade: unknown-category; permitted: one of 1, 2, 3", "line 14: column Grade: missing-column",
        "line 14: column renews: missing-column", "line 15: column 8: unknown-column",
        "line 2, 3, 4, 5, 6 and 1995 more: column Newsletter: missing-column",
        "column Newsleter: unknown-column; is it Newsletter?",
    ):  # fmt: skip
        assert part in shown, shown
    assert SECRET not in shown
    assert owner.committed("record") == 0

    written(tmp_path / "rows.csv", good)
    assert main([*arguments, *url]) == command.DONE
    with (tmp_path / "made/table.csv").open(newline="") as file:
        made = list(csv.DictReader(file))
    assert len(made) == 2_000
    assert list(made[0]) == HEADER[1:]
    assert {row["Newsletter"] for row in made} == {"Yes", "No"}
    assert {row["renews"] for row in made} == {"true", "false"}
    assert {row["Grade"] for row in made} == {"1", "2", "3", ""}
    joined = [date.fromisoformat(row["Joined"]) for row in made if row["Joined"]]
    assert len(joined) == pytest.approx(1_000, abs=120)
    assert all(2015 <= day.year <= 2024 for day in joined)
    amounts = sorted(float(row["Amount"]) for row in made if row["Amount"] not in ("", "0", "0.0"))
    assert amounts[len(amounts) // 2] == pytest.approx(271, rel=0.2)


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('\ufeffa\tb\n1\t"two\nlines"\n\n2\tx\n')
    found = table(path)
    assert (found.header, found.lines) == (["a", "b"], [2, 5])
    assert found.rows == [{"a": "1", "b": "two\nlines"}, {"a": "2", "b": "x"}]
    (tmp_path / "ROWS.CSV").write_text(",age,\n0,2,\n")
    found = table(tmp_path / "ROWS.CSV")
    assert found.rows == [{"column 1": "0", "age": "2", "column 3": ""}], "a name for a column without one"
    for content in ("", "a,a\n1,2\n"):
        path.write_text(content)
        assert main(["schema", str(path)]) == command.USAGE
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "age": 2}\n\n{"age": 2, "town": "A", "id": 1}\n[]\n')
    found = table(tmp_path / "rows.jsonl")
    assert found.columns == ["id", "age", "town"], "also a column that the first row does not have"
    said = described([TableFault(reason="unknown-column", position=2, lines=[3], count=1)], found)
    assert said == ["line 3: column town: unknown-column"]


def test_a_schema_is_drafted_without_a_value_of_the_file(
    arguments: list[str], tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = written(tmp_path / "rows.csv", [[SECRET] * len(HEADER)])
    (tmp_path / "schema.json").unlink()
    assert main(["schema", str(data), "--label", "renews", "--out", str(tmp_path / "schema.json")]) == command.DONE
    assert "leaks" in capsys.readouterr().err
    text = (tmp_path / "schema.json").read_text()
    assert SECRET not in text
    drafted = json.loads(text)
    assert drafted["ignore"] == ["customer_id"]
    assert [column["kind"] for column in drafted["columns"]] == ["date", "numeric", *["categorical"] * 3]
    assert drafted["columns"][1] == {"name": "Amount", "kind": "numeric", "minimum": "?", "maximum": "?"}
    assert drafted["label"] == {"name": "renews", "kind": "categorical", "categories": "?"}
    assert main(["schema", str(data), "--out", str(tmp_path / "schema.json")]) == command.USAGE

    monkeypatch.setenv(KEY_VARIABLE, "pg_nothing")
    capsys.readouterr()
    assert main(arguments) == command.USAGE
    shown = capsys.readouterr().err
    assert "leaves open: Joined minimum, Joined maximum, Amount minimum" in shown
    assert "renews categories" in shown


def test_a_schema_is_asked_for_at_a_terminal(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(tmp_path / "rows.csv", [], ["id", "amount", "sex", "note"])
    answers = iter(["", "", "1", "100.5", "y", "", "f, m", "", "ignore"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert main(["schema", str(data), "--label", "sex"]) == command.DONE
    assert json.loads(capsys.readouterr().out) == {
        "columns": [{"name": "amount", "kind": "numeric", "minimum": 1, "maximum": 100.5, "missing": True}],
        "label": {"name": "sex", "kind": "categorical", "categories": ["f", "m"]},
        "ignore": ["id", "note"],
    }

"""`privacy-gateway synthesize`: a file in, synthetic rows out, charged once however often it is typed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import orjson
import pytest
from command_kit import Finished, run_command
from gateway_kit import Gateway
from synthesis_kit import SHOP, shop_rows

from core.synthesis.declared import DeclaredTable, declared_table
from core.synthesis.encoding import Outside, encode_rows
from core.synthesis.marginals_release import marginals_release
from core.synthesis.pricing import record_budget
from gpu_workers.synthesis.artifact import save_counts
from service.cli.synthesize import write_comparison
from service.synthesis.table_files import json_lines

WARNING = "Private: made from your real rows. Not covered by the guarantee. Do not publish."
RECORD = {"epsilon": 1.5, "delta": 1e-4, "basic_delta": 1e-4}


def run(gateway: Gateway, key: str, folder: Path, data: Path, *flags: str, **options: str) -> Finished:
    terms = {"method": "marginals", "epsilon": "1", "delta": "1e-5", "row-count": "public", "out": str(folder / "out")}
    given = {"schema": str(folder / "shop.json"), "data": str(data), "url": gateway.url} | terms | options
    arguments = [part for name, value in given.items() for part in (f"--{name}", value)]
    return run_command(None, "synthesize", *arguments, *flags, environment={"PRIVACY_GATEWAY_API_KEY": key})


def write_csv(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as text:
        table = csv.DictWriter(text, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def test_a_file_in_and_rows_out(real_gateway: Gateway, tmp_path: Path) -> None:
    tenant = real_gateway.tenant(record=RECORD)
    (tmp_path / "shop.json").write_text(json.dumps(SHOP))
    data = write_csv(tmp_path / "rows.csv", shop_rows(80))
    made = run(real_gateway, tenant.key, tmp_path, data)
    assert made.returncode == 0, made.stderr
    assert "spent: epsilon 1, delta 1e-05" in made.stdout
    out = tmp_path / "out"
    names = ["shop.certificate.json", "shop.csv", "shop.html", "shop.safetensors"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert len((out / "shop.csv").read_text().splitlines()) == 81
    certificate = json.loads((out / "shop.certificate.json").read_text())
    assert certificate["spent"] == {"epsilon": 1.0, "delta": 1e-05}
    assert certificate["event"]["mechanism"] == "marginals"

    again = run(real_gateway, tenant.key, tmp_path, data, "--compare", rows="5")
    assert again.returncode == 0, again.stderr
    assert f"{out / 'comparison.html'}: private, made from your real rows; do not publish" in again.stdout
    assert sorted(path.name for path in out.iterdir()) == ["comparison.html", *names]
    private, public = ((out / name).read_text() for name in ("comparison.html", "shop.html"))
    assert WARNING in private
    assert WARNING not in public
    assert "80 real rows, and as many synthetic rows" in private
    assert "56 rows to train on, 24 to test on" in private
    assert "Classifiers trained on synthetic rows" in public
    assert len((out / "shop.csv").read_text().splitlines()) == 6
    assert json.loads((out / "shop.certificate.json").read_text()) == certificate
    assert tenant.committed("record") == 1.0
    other = run(real_gateway, tenant.key, tmp_path, data, name="other")
    assert other.returncode == 1
    assert "budget-exhausted" in other.stderr
    assert "epsilon 0.5" in other.stderr
    clash = run(real_gateway, tenant.key, tmp_path, data, "--compare", name="comparison")
    assert (clash.returncode, "another --name" in clash.stderr) == (1, True)
    assert "give the tenant's API key" in run(real_gateway, "", tmp_path, data).stderr
    bad = write_csv(tmp_path / "bad.csv", [*shop_rows(2), {**shop_rows(1)[0], "age": "walrus"}])
    refused = run(real_gateway, tenant.key, tmp_path, bad)
    assert (refused.returncode, refused.stderr) == (1, "error: line 4: value 1 is no finite number\n")


def read(path: Path, schema: dict[str, object] = SHOP) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in b"".join(json_lines(path, declared_table(schema))).splitlines()]


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    rows = shop_rows(20)
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(write_csv(tmp_path / "rows.csv", rows)) == read(lines) == rows
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet") == rows


def test_embeddings_of_a_csv_are_lists(tmp_path: Path) -> None:
    schema = {"embedding": {"dimension": 2, "minimum": -1, "maximum": 1}, "label": SHOP["label"]}
    path = write_csv(tmp_path / "rows.csv", [{"embedding.0": 0.25, "embedding.1": -1, "buys": "no"}])
    assert read(path, schema) == [{"embedding": [0.25, -1.0], "buys": "no"}]
    with pytest.raises(ValueError, match=r"embedding\.0 to embedding\.2$"):
        read(path, schema | {"embedding": {"dimension": 3, "minimum": -1, "maximum": 1}})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"age,buys\n1\n", "line 2: not as many values"),
        (b"age,buys\n1,2,3\n", "line 2: not as many values"),
        (b"age,spent\n5,nan\n", "line 2: value 2 is no finite number"),
        (b"age,spent\n5,1e999\n", "line 2: value 2 is no finite number"),
        (b"age\n\xff\xfe\n", "not CSV in UTF-8"),
    ],
)
def test_a_bad_csv_is_reported_by_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ends in one of"):
        read(tmp_path / "rows.xlsx")
    pytest.importorskip("pyarrow")
    (tmp_path / "rows.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        read(tmp_path / "rows.parquet")


def comparison(folder: Path, data: Path, declared: DeclaredTable, rows: list[dict[str, object]]) -> str:
    """The page of `data` against what a release of `rows` draws."""
    encoded = encode_rows(
        declared.schema, [declared.row(row, number=i) for i, row in enumerate(rows)], outside=Outside.REFUSE
    )
    release = marginals_release(encoded, bins=4, budget=record_budget(1, 1e-5), rows_are_public=True)
    save_counts(folder / "shop.safetensors", release)
    result = {"name": "shop", "dimension": declared.dimension, "privacy": {"noise_multiplier": 3.73}}
    page = folder / "comparison.html"
    write_comparison(page, data, folder / "shop.safetensors", result, outside="refuse")
    assert page.stat().st_mode & 0o777 == 0o600
    return page.read_text()


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("embeddings", [False, True])
def test_every_format_is_compared(tmp_path: Path, kind: str, embeddings: bool) -> None:
    rows = shop_rows(80)
    if embeddings:
        rows = [{"embedding": [row["spent"]] * 40, "buys": row["buys"]} for row in rows]
    schema = {"embedding": {"dimension": 40, "minimum": 0, "maximum": 1}, "label": SHOP["label"]}
    data = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(arrow.Table.from_pylist(rows), data)
    page = comparison(tmp_path, data, declared_table(schema if embeddings else SHOP), rows)
    assert WARNING in page
    assert "trained on synthetic</th>" in page
    assert ('class="heat"' in page) != embeddings


def test_the_error_for_rows_of_another_job_does_not_repeat_them(tmp_path: Path) -> None:
    rows = shop_rows(30)
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row | {"colour": "walrus"}) + "\n" for row in rows))
    with pytest.raises(ValueError, match="A declared category is expected") as refused:
        comparison(tmp_path, data, declared_table(SHOP), rows)
    assert "walrus" not in str(refused.value)
    assert not (tmp_path / "comparison.html").exists()

"""The synthesis job without a gateway: nothing is drawn before its charge, and what is sealed is never drawn again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from job_kit import synthesis_order
from synthesis_kit import SHOP, shop_rows

from core.errors import BadCorpus, JobFilesLost
from core.synthesis import aim_release, marginals_release, pearl_release
from core.synthesis.columns import Outside
from core.synthesis.encoding import encode_rows
from core.synthesis.schema import declared_table
from gpu_workers.jobs.protocol import INPUT, EncryptedCheckpoint, JobOrder
from gpu_workers.synthesis import job as synthesis_job
from gpu_workers.synthesis.stored_generator import load_source


class Crash(Exception):
    """Stands for the death of the process."""


class Ledger:
    """The gateway's side of a charge: it spends once, and confirms it at every further call."""

    def __init__(self) -> None:
        self.charges, self.spent = 0, 0
        self.reachable = True

    def charge(self) -> None:
        self.charges += 1
        if not self.reachable:
            raise Crash
        self.spent = 1


@pytest.fixture
def order(tmp_path: Path) -> JobOrder:
    return synthesis_order(tmp_path / "job", shop_rows(300))


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch, ledger: Ledger) -> list[int]:
    """What had been spent at each draw of noise."""
    seen: list[int] = []
    for module in (marginals_release, pearl_release, aim_release):
        real = module.noisy

        def noted(*arguments: Any, real: Any = real, **keywords: Any) -> Any:
            seen.append(ledger.spent)
            return real(*arguments, **keywords)

        monkeypatch.setattr(module, "noisy", noted)
    return seen


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def run(order: JobOrder, ledger: Ledger) -> dict[str, Any]:
    return synthesis_job.run(order, lambda *_: None, ledger.charge)


def outputs(order: JobOrder) -> list[Path]:
    return [
        path for path in Path(order.spec.report).parent.parent.rglob("*") if path.suffix in (".html", ".safetensors")
    ]


@pytest.mark.parametrize("method", ["pearl", "marginals", "aim"])
def test_every_draw_comes_after_the_charge(order: JobOrder, ledger: Ledger, draws: list[int], method: str) -> None:
    order = replace(order, spec=replace(order.spec, method=method))
    result = run(order, ledger)
    assert draws
    assert set(draws) == {1}
    assert (ledger.charges, result["rows"], result["method"]) == (1, 300, method)
    assert not (order.folder / INPUT).exists()
    assert len(load_source(Path(order.spec.targets[0])).sample(5)) == 5
    assert result["privacy"]["epsilon"] == 1.0


def test_aim_keeps_a_label_that_only_three_columns_determine(tmp_path: Path, ledger: Ledger) -> None:
    """From rows as a caller writes them to rows of the artifact."""
    names = ("a", "b", "c")
    columns = [{"name": name, "kind": "categorical", "categories": ["0", "1"]} for name in names]
    schema = {"columns": columns, "label": {"name": "odd", "kind": "categorical", "categories": ["no", "yes"]}}
    bits = np.random.default_rng(2).integers(0, 2, (2_000, 3)).tolist()
    rows = [dict(zip(names, map(str, each), strict=True)) | {"odd": ["no", "yes"][sum(each) % 2]} for each in bits]
    order = synthesis_order(tmp_path / "job", rows)
    order = replace(order, spec=replace(order.spec, declared=schema, method="aim", rows_max=2_000))
    result = run(order, ledger)
    made = load_source(Path(order.spec.targets[0])).sample(2_000)
    assert (made.codes.sum(axis=1) % 2 == made.labels).mean() > 0.9
    assert (result["rows"], result["privacy"]["mechanism"], result["warnings"]) == (2_000, "aim", [])
    assert "as one Gaussian release" in Path(order.spec.report).read_text()


def test_without_the_ledger_nothing_is_drawn_or_written(order: JobOrder, ledger: Ledger, draws: list[int]) -> None:
    ledger.reachable = False
    with pytest.raises(Crash):
        run(order, ledger)
    assert draws == outputs(order) == []
    assert (order.folder / INPUT).exists()
    ledger.reachable = True
    run(order, ledger)
    assert set(draws) == {1}


def test_a_death_between_charge_and_seal_leaves_nothing_of_the_draw(
    order: JobOrder, ledger: Ledger, draws: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(EncryptedCheckpoint, "write", dies)
        with pytest.raises(Crash):
            run(order, ledger)
    assert (ledger.spent, outputs(order)) == (1, [])
    assert sorted(path.name for path in order.folder.iterdir()) == [INPUT], "nothing outlived the process"
    before = len(draws)
    run(order, ledger)
    assert (ledger.charges, len(draws)) == (2, 2 * before), "the ledger confirms again that it is spent"


@pytest.mark.parametrize("step", ["publish", "_write"])
def test_what_is_sealed_is_never_drawn_again(
    order: JobOrder, ledger: Ledger, draws: list[int], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def dies(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(synthesis_job, step, dies)
        with pytest.raises(Crash):
            run(order, ledger)
    kept = (order.folder / "release").read_bytes()
    before = list(draws)
    assert not (order.folder / INPUT).exists(), "the rows are forgotten as soon as they are not needed"
    run(order, ledger)
    assert (ledger.charges, draws) == (1, before)
    assert (order.folder / "release").read_bytes() == kept


def test_a_release_that_was_tampered_with_is_refused(order: JobOrder, ledger: Ledger, draws: list[int]) -> None:
    run(order, ledger)
    sealed = order.folder / "release"
    sealed.write_bytes(sealed.read_bytes()[:-3])
    before = list(draws)
    with pytest.raises(JobFilesLost):
        run(order, ledger)
    assert draws == before


def lines(*rows: object) -> Iterator[bytes]:
    yield b"".join(row if isinstance(row, bytes) else orjson.dumps(row) + b"\n" for row in rows)


ROW = shop_rows(1)[0]


def test_a_bad_row_is_reported_by_line_and_kind() -> None:
    for rows, reason, line in [
        ((ROW,), "too-few-rows", None), ((), "too-few-rows", None), ((ROW,) * 11, "too-many-rows", None),
        ((ROW, b"\n\n", ROW, {**ROW, "age": 101}), "outside-bounds", 5),
        ((ROW, ROW, {**ROW, "age": "walrus"}), "not-a-number", 3), ((ROW, ROW, {**ROW, "age": 1.5}), "not-whole", 3),
        ((ROW, {**ROW, "colour": "walrus"}), "unknown-category", 2), ((ROW, {"age": 3}), "missing-column", 2),
        ((ROW, [1, 2]), "wrong-columns", 2), ((ROW, b'{"age": NaN}\n'), "malformed-json", 2),
        ((ROW, b"\xff\n"), "not-utf-8", 2),
    ]:  # fmt: skip
        with pytest.raises(BadCorpus) as refused:
            synthesis_job.read_table(lines(*rows), declared_table(SHOP), outside=Outside.REFUSE, rows_max=10)
        assert (refused.value.reason, refused.value.line) == (reason, line)
        assert "walrus" not in refused.value.detail


def test_a_table_in_blocks_is_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis_job, "_BLOCK_ROWS", 4)
    declared, rows = declared_table(SHOP), [*shop_rows(8), {**ROW, "age": 500}]
    whole = encode_rows(declared.schema, rows, outside=Outside.CLIP)
    read = synthesis_job.read_table(lines(*rows), declared, outside=Outside.CLIP, rows_max=10)
    assert np.array_equal(read.codes, whole.codes)
    assert np.array_equal(read.labels, whole.labels)

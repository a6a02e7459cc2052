"""The kept outcome of the encoder's check: found on the same processor alone, and never believed blindly."""

from pathlib import Path

import pytest
import torch
from tiny_models import sentence_encoder

from gpu_workers.models import device, independence, packed_bert
from gpu_workers.models.device import Measured
from gpu_workers.models.encoder import Encoder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sentence_encoder(tmp_path_factory.mktemp("small"), "bert")


def checked(small: Path, folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> tuple[Encoder, bool, int]:
    """An encoder, whether it passed its check, and how often every shape was run."""
    runs = 0
    whole = independence.packed_is_independent

    def counted(*arguments: object, **keywords: object) -> bool:
        nonlocal runs
        runs += 1
        return whole(*arguments, **keywords)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(independence, "packed_is_independent", counted)
        encoder = Encoder(small, dtype=torch.float32)
        passed = encoder.self_check(Measured(folder))
    return encoder, passed, runs


def test_a_second_start_finds_the_first_ones_outcome(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, passed, runs = checked(small, tmp_path / "measured", monkeypatch)
    assert (passed, runs) == (True, 1)
    second, passed, runs = checked(small, tmp_path / "measured", monkeypatch)
    assert (passed, runs) == (True, 0)
    assert second.facts() == first.facts()
    (file,) = (tmp_path / "measured").iterdir()

    file.write_text("{")
    assert checked(small, tmp_path / "measured", monkeypatch)[1:] == (True, 1), "a torn file counts as none"
    file.write_text('{"batching": "NEVER", "tokens_per_s": 1}')
    assert checked(small, tmp_path / "measured", monkeypatch)[1:] == (True, 1)

    monkeypatch.setattr(device, "machine", lambda: {"processor": "another"})
    assert checked(small, tmp_path / "measured", monkeypatch)[1:] == (True, 1), "another processor"
    assert checked(small, None, monkeypatch)[1:] == (True, 1), "nothing is kept without a folder"


def test_vectors_that_depend_on_companions_are_noticed_whatever_is_kept(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked(small, tmp_path, monkeypatch)[1]
    right = packed_bert.scaled_dot_product_attention

    def leaking(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor) -> torch.Tensor:
        out = right(query, key, value, attn_mask=attn_mask)
        return out + 1e-3 * out.mean(dim=0)

    monkeypatch.setattr(packed_bert, "scaled_dot_product_attention", leaking)
    _, passed, runs = checked(small, tmp_path, monkeypatch)
    assert not passed
    assert runs > 0


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Measured(tmp_path / "file")
    kept.keep({"seconds": 1}, "one")
    assert kept.find("one") is None


def test_processes_that_measure_at_once_agree_on_the_first_value(tmp_path: Path) -> None:
    one, other = Measured(tmp_path / "measured"), Measured(tmp_path / "measured")
    assert one.find("type") is other.find("type") is None
    assert one.agree({"bfloat16": True}, "type") == {"bfloat16": True}
    assert other.agree({"bfloat16": False}, "type") == {"bfloat16": True}
    (file,) = (tmp_path / "measured").iterdir()
    file.write_text("{")
    assert other.agree({"bfloat16": False}, "type") == {"bfloat16": False} == one.find("type"), (
        "a torn file is replaced"
    )
    assert Measured(None).agree({"bfloat16": True}, "type") == {"bfloat16": True}

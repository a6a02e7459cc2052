"""Which files of the last release's data directory are taken over."""

from __future__ import annotations

from pathlib import Path

from service.files.takeover import _found


def test_a_folder_that_is_no_tenants_is_passed_over(tmp_path: Path) -> None:
    for name in ("acme", "lost+found"):
        (tmp_path / "tenants" / name).mkdir(parents=True)
        (tmp_path / "tenants" / name / "law.safetensors").touch()
    assert _found(tmp_path) == [("acme", tmp_path / "tenants/acme/law.safetensors")]
    assert _found(tmp_path / "absent") == []

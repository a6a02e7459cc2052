"""The admin key: what is no key keeps the gateway from starting."""

import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from service.config.settings import Settings
from service.gateway import AdminKeys, Gateway

MADE = "pga_0123456789abcdef0123456789abcdef"


NO_KEYS = ("", "   ", "0" * 31, "0" * 20 + " " + "0" * 20, "\u00e4" * 40, MADE[:-1], MADE[:20], "\0" * 37)


def test_a_setting_that_is_no_admin_key_is_an_error_that_does_not_show_it(tmp_path: Path) -> None:
    for value in NO_KEYS:
        with pytest.raises(ValueError, match="admin_key") as caught:
            Settings(data_dir=tmp_path, admin_key=SecretStr(value))
        assert not value.strip() or value.strip() not in str(caught.value)


def test_a_file_that_holds_no_whole_key_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "admin.key"
    path.touch(mode=0o600)
    for content in NO_KEYS:
        path.write_text(f"{content}\n")
        with pytest.raises(ValueError, match="delete") as caught:
            Gateway(Settings(data_dir=tmp_path))
        assert str(path) in str(caught.value)
        assert not content.strip() or content not in str(caught.value)
        assert path.read_text() == f"{content}\n"


def test_the_key_is_made_once_and_kept(tmp_path: Path) -> None:
    first = Gateway(Settings(data_dir=tmp_path))
    path = tmp_path / "admin.key"
    assert first.parts[AdminKeys].keys[0] == path.read_text().strip()
    assert len(first.parts[AdminKeys].keys[0]) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Gateway(Settings(data_dir=tmp_path)).parts[AdminKeys].keys[0] == first.parts[AdminKeys].keys[0]
    path.write_text(f"  {'k' * 32}  \n")
    assert Gateway(Settings(data_dir=tmp_path)).parts[AdminKeys].keys[0] == "k" * 32, "the operator's own"

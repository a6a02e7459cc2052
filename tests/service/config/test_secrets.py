"""Every secret that is read is looked at first: settings, files of the data directory, key files of commands."""

from pathlib import Path

import pytest
import typer
from table_kit import texts

from service.cli.ledger import show_key
from service.config.settings import Settings
from service.gateway import Gateway

KEY = "pgw_0123456789abcdef_0123456789abcdef0123456789abcdef"


INCOMPLETE = [
    ("PRIVACY_GATEWAY_MASTER_KEY", ""), ("PRIVACY_GATEWAY_MASTER_KEY", "canary"),
    ("PRIVACY_GATEWAY_MASTER_KEY", "ab" * 31), ("PRIVACY_GATEWAY_INFILL_API_KEY", ""),
    ("PRIVACY_GATEWAY_INFILL_API_KEY", " \n"), ("PRIVACY_GATEWAY_INFILL_API_KEY", "canary canary"), ("REDIS_URL", ""),
    ("REDIS_URL", "redis://:@canary:6379/0"), ("REDIS_URL", "redis://gateway:@canary:6379/0"),
    ("REDIS_URL", "redis://gateway@canary:6379/0"), ("REDIS_URL", "redis://gateway:canary/tail@host:6379/0"),
    ("REDIS_URL", "redis://gateway:canary#tail@host:6379/0"), ("REDIS_URL", "redis://gateway:[canary]@host:6379/0"),
    ("REDIS_URL", "redis://gateway:canary\u2100@host:6379/0"), ("REDIS_URL", "redis://:1/canary@host:6379/0"),
    ("REDIS_URL", "redis://gateway:1#canary@host:6379/0"),
    ("REDIS_URL", "unix:///run/redis.sock?password=canary#tail"),
    ("PRIVACY_GATEWAY_REDIS_URL", "unix://gateway@/canary.sock?password="),
]  # fmt: skip


def test_a_variable_without_its_secret_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in INCOMPLETE:
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            with pytest.raises(ValueError, match=r"master_key|infill_api_key|REDIS_URL") as caught:
                Settings()
        assert "canary" not in str(caught.value)


def test_a_url_with_a_password_or_with_no_user_at_all_is_taken() -> None:
    for url in texts("""
        redis://redis:6379/0 || rediss://gateway:pass@redis:6379/0 || redis://:pass@redis || unix:///run/redis.sock
        unix://gateway@/run/redis.sock?password=pass
    """):
        assert Settings(redis_url=url).redis_url == url


def test_a_master_key_that_is_not_whole_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    path.touch(mode=0o600)
    for content in (b"", bytes(32), b"k" * 31, b"k" * 33):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="backup") as caught:
            Gateway(Settings(data_dir=tmp_path))
        assert str(path) in str(caught.value)
        assert path.read_bytes() == content


def test_a_key_file_is_written_whole_and_a_key_that_cannot_be_written_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "tenant.key"
    show_key("acme", KEY, path, False)
    with pytest.raises(typer.Exit):
        show_key("acme", KEY, tmp_path, False)
    said = capsys.readouterr()
    assert path.read_text() == f"{KEY}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "key create" in said.err
    assert KEY not in said.out + said.err

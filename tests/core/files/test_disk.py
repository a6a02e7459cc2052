"""Secret files: whole or not there at any moment, and read only when they can be used."""

import os
import stat
from pathlib import Path

import pytest

from core.files.disk import SECRET_BYTES_MAX, read_secret, write_secret

STEPS = ("fsync", "link", "replace")


def traced(monkeypatch: pytest.MonkeyPatch, *, failing: int | None = None) -> list[str]:
    """The steps of a write in their order, with what is on the disk by then; the numbered one fails."""
    seen: list[str] = []

    def watch(name: str) -> None:
        original = getattr(os, name)

        def step(*arguments: object, **more: object) -> object:
            if name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode):  # type: ignore[arg-type]
                seen.append("fsync folder")
            else:
                seen.append(name)
            if failing == len(seen):
                raise OSError(28, "no space left on device")
            return original(*arguments, **more)

        monkeypatch.setattr(os, name, step)

    for name in STEPS:
        watch(name)
    return seen


@pytest.mark.parametrize("replace", [False, True])
def test_a_secret_gets_its_name_after_its_content_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    seen = traced(monkeypatch)
    write_secret(tmp_path / "a" / "key", b"secret", replace=replace)
    assert seen == ["fsync", "replace" if replace else "link", "fsync folder"]
    assert (tmp_path / "a" / "key").read_bytes() == b"secret"
    assert stat.S_IMODE((tmp_path / "a" / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["key"]


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("failing", [1, 2])
def test_a_write_that_fails_leaves_what_there_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool, failing: int
) -> None:
    path = tmp_path / "key"
    if replace:
        path.write_bytes(b"former")
    traced(monkeypatch, failing=failing)
    with pytest.raises(OSError, match="no space"):
        write_secret(path, b"secret", replace=replace)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == ([("key", b"former")] if replace else [])


def test_what_is_there_stays_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    path, link, folder = tmp_path / "key", tmp_path / "link", tmp_path / "folder"
    write_secret(path, b"first")
    with pytest.raises(FileExistsError):
        write_secret(path, b"second")
    link.symlink_to(path)
    folder.mkdir()
    for other in (link, folder):
        with pytest.raises(OSError, match="regular"):
            write_secret(other, b"third", replace=True)

    assert path.read_bytes() == b"first"
    assert link.is_symlink()
    path.chmod(0o644)
    write_secret(path, b"second", replace=True)
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {each.name for each in tmp_path.iterdir()} == {"key", "link", "folder"}


@pytest.mark.parametrize("content", [b"", b" \n\t", bytes(32), b"x" * (SECRET_BYTES_MAX + 1), b"refused-by-parse"])
def test_content_that_is_no_secret_is_refused_with_advice_and_not_shown(tmp_path: Path, content: bytes) -> None:
    def parse(found: bytes) -> bytes:
        raise ValueError("it is not one")

    path = tmp_path / "key"
    write_secret(path, content)

    with pytest.raises(ValueError, match="ask the operator") as caught:
        read_secret(path, parse, advice="ask the operator")

    assert str(path) in str(caught.value)
    assert "refused-by-parse" not in str(caught.value)


def test_only_its_owner_may_be_able_to_open_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_secret(path, b"secret")
    assert read_secret(path, bytes.decode, advice="") == "secret"
    for mode in (0o604, 0o640, 0o620, 0o601):
        path.chmod(mode)
        with pytest.raises(ValueError, match="owner"):
            read_secret(path, bytes.decode, advice="")


def test_a_pipe_can_be_read(tmp_path: Path) -> None:
    """`--key-file <(pass show key)`."""
    read, write = os.pipe()
    os.write(write, b"secret")
    os.close(write)
    try:
        assert read_secret(Path(f"/dev/fd/{read}"), bytes.decode, advice="") == "secret"
    finally:
        os.close(read)

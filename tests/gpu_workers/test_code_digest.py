"""A gateway and a worker of different code have different schemas, so they refuse each other."""

from __future__ import annotations

from pathlib import Path

from gpu_workers.code_digest import code_digest, digest_of
from gpu_workers.engine.remote.codec import Codec
from gpu_workers.handlers.wire import TABLE, wire_codec


def test_the_schema_covers_the_code() -> None:
    assert wire_codec().schema == Codec(TABLE, code=code_digest()).schema
    assert len({Codec(TABLE, code=code).schema for code in ("", "one", "two")}) == 3


def test_each_change_of_a_source_file_changes_the_digest(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    source = tmp_path / "inner" / "noise.py"
    source.write_text("SCALE = 1\n")
    found = [digest_of([tmp_path])]
    source.write_text("SCALE = 2\n")
    found.append(digest_of([tmp_path]))
    source.rename(tmp_path / "noise.py")
    found.append(digest_of([tmp_path]))
    assert len(set(found)) == 3
    (tmp_path / "inner" / "noise.pyc").write_text("a cache")
    assert digest_of([tmp_path]) == found[-1]

"""The file of paid answers: several processes, damage, keys."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from privacy_gateway_client import Cache, CacheUnusable, new_cache_key

WRITER = """
import sys
from privacy_gateway_client import Cache
for turn in range(10):
    cache = Cache(sys.argv[1], bytes(range(32)))
    name = cache.name({"turn": turn}, b"content")
    cache.put([(name, sys.argv[2].encode())])
    print(cache.get([name])[name].decode())
    cache.close()
"""
KEY = bytes(range(32))


@pytest.mark.usefixtures("processes")
def test_several_processes_share_a_file(tmp_path: Path) -> None:
    """All open it at once, and the first answer for a name is that of all."""
    path = tmp_path / "answers"
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    found = [process.communicate(timeout=300)[0].split() for process in running]
    assert all(process.returncode == 0 for process in running)
    assert len(found[0]) == 10
    assert found == [found[0]] * 4


def test_threads_share_a_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "answers", KEY)
    names = [cache.name({"n": number}, b"") for number in range(1200)]
    parts = [names[start::4] for start in range(4)]
    threads = [threading.Thread(target=cache.put, args=([(name, name) for name in part],)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get(names) == {name: name for name in names}
    cache.clear()
    assert cache.get(names) == {}


def test_a_name_depends_on_the_key_the_scope_and_the_content(tmp_path: Path) -> None:
    cache, other = Cache(tmp_path / "a", KEY), Cache(tmp_path / "b", bytes(32))
    names = [
        cache.name({"tenant": "a"}, b"text"),
        cache.name({"tenant": "b"}, b"text"),
        cache.name({"tenant": "a"}, b"other"),
        other.name({"tenant": "a"}, b"text"),
    ]
    assert len(set(names)) == 4


def test_a_changed_entry_is_bought_again(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    cache = Cache(path, KEY)
    first, second = cache.name({}, b"1"), cache.name({}, b"2")
    cache.put([(first, b"one"), (second, b"two")])
    with sqlite3.connect(path) as file:  # the answer of another content
        file.execute(
            "UPDATE entries SET entry = (SELECT entry FROM entries WHERE name = ?) WHERE name = ?", (second, first)
        )
    assert cache.get([first, second]) == {second: b"two"}


def test_files_and_keys(tmp_path: Path) -> None:
    key = new_cache_key(tmp_path / "key")
    assert new_cache_key(tmp_path / "key") == key
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    Cache(tmp_path / "answers", key).close()
    assert (tmp_path / "answers").stat().st_mode & 0o777 == 0o600
    with pytest.raises(CacheUnusable):
        Cache(tmp_path / "answers", KEY)
    (tmp_path / "other").write_bytes(b"no database at all" * 100)
    with pytest.raises(CacheUnusable):
        Cache(tmp_path / "other", KEY)
    with pytest.raises(ValueError, match="32 bytes"):
        Cache(tmp_path / "answers", b"short")

"""The rows that a batch has made so far: checkpoints in the job's encrypted folder, a few rows each.

Guarantee: a row that `flush` has written is found by the next attempt, and a line has at most one row. Files are
replaced whole, never changed.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from core.files.disk import full_disk, sync_folder
from core.files.encrypted_file import EncryptedFileWriter, decrypt, encrypt

OUTPUT, ERROR = "output", "error"  # where a row belongs, and the label of the file that it is in
LOST = "lost"  # of a line that was charged and interrupted: an error, unless another attempt makes its row
TOTAL = "total"  # the number of lines, once they are known to be valid
_KINDS = {b"o": OUTPUT, b"e": ERROR, b"l": LOST}
_SEGMENT = "rows-"
_SEGMENT_BYTES = 1024 * 1024  # from which the next rows begin another file


class KeptRows:
    """The rows of one job. `done`: the lines that have one. `counts`: how many rows, by OUTPUT and ERROR. Reads the
    disk. Raises JobFilesLost."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder = folder
        self._key = key
        self.done: set[int] = set()
        self.counts: Counter[str] = Counter()
        self._segments = 0
        self._current = bytearray()
        lost: set[int] = set()
        for number, kind, _ in self._read():
            if kind == LOST:
                lost.add(number)
                continue
            self.done.add(number)
            self.counts[kind] += 1
        self._lost = lost - self.done
        self._written = len(self._current)  # bytes of the last file that are on the disk

    @property
    def total(self) -> int:
        """The number of lines, 0 before it is known."""
        path = self._folder / TOTAL
        return int(decrypt(path, self._key, TOTAL)) if path.exists() else 0

    def keep_total(self, total: int) -> None:
        encrypt(self._folder / TOTAL, self._key, TOTAL, str(total).encode())

    def add(self, number: int, kind: str, row: bytes) -> None:
        """Add the row of a line, which `flush` writes. `row`: JSON in one line."""
        self._current += b"%s%d %s\n" % (kind[:1].encode(), number, row)
        if kind == LOST:
            self._lost.add(number)
        else:
            self._lost.discard(number)
            self.done.add(number)
            self.counts[kind] += 1

    async def flush(self) -> None:
        """Write the rows that were added. One call at a time. Raises StorageFull."""
        if len(self._current) == self._written:
            return
        content = bytes(self._current)
        await asyncio.to_thread(self._write, f"{_SEGMENT}{self._segments:06d}", content)
        self._written = len(content)
        if len(content) >= _SEGMENT_BYTES:
            del self._current[: len(content)]
            self._segments, self._written = self._segments + 1, 0

    def _write(self, name: str, content: bytes) -> None:
        with full_disk():
            encrypt(self._folder / name, self._key, name, content)
        sync_folder(self._folder)

    def publish(self, folder: Path) -> dict[str, tuple[Path, int]]:
        """Write the files of output and errors to `folder`, each under the job's key. Returns the path and the plain
        size of each that has rows, by its label. Nothing may be added meanwhile."""
        folder.mkdir(mode=0o700, exist_ok=True)
        writers: dict[str, EncryptedFileWriter] = {}
        sizes: Counter[str] = Counter()
        lost = set(self._lost)
        for number, found, row in self._read():
            if found == LOST and number not in lost:
                continue
            lost.discard(number)
            kind = ERROR if found == LOST else found
            if kind not in writers:
                (folder / kind).unlink(missing_ok=True)
                writers[kind] = EncryptedFileWriter(folder / kind, self._key, kind)
            writers[kind].write(row + b"\n")
            sizes[kind] += len(row) + 1
        for writer in writers.values():
            writer.close()
        return {kind: (folder / kind, sizes[kind]) for kind in writers}

    @property
    def result(self) -> dict[str, int]:
        """The result of a batch, whole or not."""
        failed = self.counts[ERROR] + len(self._lost)
        return {"total": self.total, "completed": self.counts[OUTPUT], "failed": failed}

    def _read(self) -> Iterator[tuple[int, str, bytes]]:
        """Number, kind and content of each row. Remembers the last file, which further rows are added to."""
        content = b""
        self._segments = 0
        while (path := self._folder / f"{_SEGMENT}{self._segments:06d}").exists():
            content = decrypt(path, self._key, path.name)
            for line in content.splitlines():
                number, _, row = line[1:].partition(b" ")
                yield int(number), _KINDS[line[:1]], row
            if len(content) < _SEGMENT_BYTES:
                break
            self._segments += 1
            content = b""
        self._current = bytearray(content)

"""A small S3 server that keeps its objects on disk, in a process of its own that a test may kill and start again.

Guarantee, as an object store gives it: an object is on the disk, with its directory entry, before it is acknowledged.
So a killed server has every object that it has acknowledged, and of the others the whole object or nothing. Of several
`PUT` requests with `If-None-Match: *` one succeeds. It does not check signatures: only this machine can reach it.

    python s3_on_disk.py PORT FOLDER
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from gateway_kit import free_port
from s3_kit import S3Server

_LISTED_MAX = 1000
_DRAFT = "."
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class S3OnDisk(S3Server):
    """The server on the objects of `folder`. `kill` ends it with SIGKILL, `start` starts it again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self._folder = folder
        folder.mkdir(exist_ok=True)
        super().__init__(f"http://127.0.0.1:{self._port}", self._spawned())
        self.wait_ready()

    def start(self) -> None:
        self.process = self._spawned()
        self.wait_ready()

    def _spawned(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        with (self._folder.parent / f"{self._folder.name}.log").open("ab") as log:
            command = [sys.executable, __file__, str(self._port), str(self._folder)]
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class _Objects:
    """Objects of a bucket: one file for each, in one folder. Drafts begin with a point."""

    def __init__(self, root: Path) -> None:
        self._root = root
        for draft in root.glob(f"*/{_DRAFT}*"):
            if draft.is_file():
                draft.unlink()  # of a server that was killed

    def bucket(self, name: str) -> Path:
        return self._root / quote(name, safe="")

    def path(self, bucket: str, key: str) -> Path:
        return self.bucket(bucket) / quote(key, safe="").replace(".", "%2E")

    def write(self, path: Path, content: bytes, *, create_only: bool) -> bool:
        """Returns False if there is an object and `create_only`."""
        draft = path.with_name(f"{_DRAFT}{secrets.token_hex(8)}")
        try:
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if create_only:
                path.hardlink_to(draft)
            else:
                draft.replace(path)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        return True

    def listed(self, bucket: str, prefix: str, after: str) -> list[tuple[str, os.stat_result]]:
        """Keys and facts, in the order of the keys."""
        keys = sorted(unquote(path.name) for path in self.bucket(bucket).iterdir() if not path.name.startswith(_DRAFT))
        found = []
        for key in keys:
            if key.startswith(prefix) and key > after:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    found.append((key, self.path(bucket, key).stat()))
        return found


def _tag(facts: os.stat_result) -> str:
    """The entity tag: another one after each replacement."""
    return f'"{facts.st_mtime_ns:x}-{facts.st_ino:x}-{facts.st_size:x}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    objects: _Objects
    uploads: Path

    def do_PUT(self) -> None:
        bucket, key, query = self._target()
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not key:
            self.objects.bucket(bucket).mkdir(exist_ok=True)
            self._answer(200)
        elif "uploadId" in query:
            part = self.uploads / query["uploadId"][0] / f"{int(query['partNumber'][0]):05d}"
            part.write_bytes(content)
            self._answer(200, headers={"ETag": f'"{part.name}"'})
        elif self.objects.write(
            path := self.objects.path(bucket, key), content, create_only=self.headers.get("If-None-Match") == "*"
        ):
            self._answer(200, headers={"ETag": _tag(path.stat())})
        else:
            self._answer(412, _error("PreconditionFailed"))

    def do_POST(self) -> None:
        bucket, key, query = self._target()
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "delete" in query:
            keys = [each.text or "" for each in ElementTree.fromstring(content).iter() if each.tag.endswith("Key")]
            for named in keys:
                self.objects.path(bucket, named).unlink(missing_ok=True)
            deleted = "".join(f"<Deleted><Key>{escape(named)}</Key></Deleted>" for named in keys)
            self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())
        elif "uploads" in query:
            upload = secrets.token_hex(16)
            (self.uploads / upload).mkdir(parents=True)
            named = f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
            self._answer(200, f"<InitiateMultipartUploadResult>{named}</InitiateMultipartUploadResult>".encode())
        else:
            folder = self.uploads / query["uploadId"][0]
            parts = [part.read_bytes() for part in sorted(folder.iterdir())]
            create_only = self.headers.get("If-None-Match") == "*"
            if self.objects.write(self.objects.path(bucket, key), b"".join(parts), create_only=create_only):
                named = f"<Key>{escape(key)}</Key><ETag>{escape(_tag(self.objects.path(bucket, key).stat()))}</ETag>"
                self._answer(200, f"<CompleteMultipartUploadResult>{named}</CompleteMultipartUploadResult>".encode())
            else:
                self._answer(412, _error("PreconditionFailed"))

    def do_GET(self) -> None:
        bucket, key, query = self._target()
        if key:
            self._object(bucket, key)
        elif "list-type" in query:
            self._list(bucket, {name: values[0] for name, values in query.items()})
        else:
            self._answer(404, _error("NoSuchKey"))

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        bucket, key, query = self._target()
        if "uploadId" not in query:
            self.objects.path(bucket, key).unlink(missing_ok=True)
        self._answer(204)

    def _object(self, bucket: str, key: str) -> None:
        try:
            with self.objects.path(bucket, key).open("rb") as file:
                facts, content = os.fstat(file.fileno()), file.read()
        except (FileNotFoundError, NotADirectoryError):
            self._answer(404, _error("NoSuchKey"))
            return
        if self.headers.get("If-Match", _tag(facts)) != _tag(facts):
            self._answer(412, _error("PreconditionFailed"))
            return
        headers = {"ETag": _tag(facts), "Last-Modified": formatdate(facts.st_mtime, usegmt=True)}
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if asked:
            first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            content = content[first : last + 1]
        self._answer(206 if asked else 200, content, headers)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        after = query.get("continuation-token") or query.get("start-after", "")
        found = self.objects.listed(bucket, query.get("prefix", ""), after)
        shown = found[:_LISTED_MAX]
        rows = [
            f"<Contents><Key>{escape(key)}</Key><Size>{facts.st_size}</Size><ETag>{escape(_tag(facts))}</ETag>"
            f"<LastModified>{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(facts.st_mtime))}</LastModified>"
            "</Contents>"
            for key, facts in shown
        ]
        if len(found) > len(shown):
            rows.append(f"<NextContinuationToken>{escape(shown[-1][0])}</NextContinuationToken>")
        listing = f"<Name>{escape(bucket)}</Name><KeyCount>{len(shown)}</KeyCount>{''.join(rows)}"
        self._answer(200, f"<ListBucketResult>{listing}</ListBucketResult>".encode())

    def _target(self) -> tuple[str, str, dict[str, list[str]]]:
        address = urlsplit(self.path)
        bucket, _, key = unquote(address.path).lstrip("/").partition("/")
        return bucket, key, parse_qs(address.query, keep_blank_values=True)

    def _answer(self, status: int, content: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing of a request."""


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code></Error>".encode()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client may leave, or be killed, at any moment."""


def main(port: str, folder: str) -> None:
    root = Path(folder)
    _Handler.objects = _Objects(root)
    _Handler.uploads = root / f"{_DRAFT}uploads"
    _Handler.uploads.mkdir(exist_ok=True)
    _Server(("127.0.0.1", int(port)), _Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

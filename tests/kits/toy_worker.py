"""A worker server whose handler is a toy of `engine_kit`.

`python toy_worker.py ROLE FACTORY ADDRESS SLOT_S BATCH_S FILES FILES_BYTES [CA CERTIFICATE KEY]`. It lacks
the files of each task whose name begins with `lacking`, and fails to check one that begins with `unchecked`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import engine_kit

from gpu_workers.engine.protocol import Role
from gpu_workers.engine.remote.access import Access, Tls
from gpu_workers.engine.remote.cache_folders import open_cache
from gpu_workers.engine.remote.object_server import Claim, WorkerFiles
from gpu_workers.engine.remote.process import serve_until_signal
from gpu_workers.engine.remote.server import WorkerServer
from gpu_workers.handlers.needed_files import NeededFiles


class ToyFiles(WorkerFiles):
    """The objects, and what tasks say by their names."""

    def claim(self, payloads: list[Any]) -> Claim:
        lacking = engine_kit.lacking_by_name(payloads)
        return Claim(payloads, lacking) if lacking else super().claim(payloads)


def main(
    role: str, factory: str, address: str, slot_s: str, batch_s: str, files: str, files_bytes: str, *tls: str
) -> int:
    def make() -> WorkerServer:
        return WorkerServer(
            Role(role),
            getattr(engine_kit, factory),
            engine_kit.toy_codec(),
            Access(engine_kit.TOKEN, Tls(*map(Path, tls)) if tls else None),
            listen=address,
            slot_s=float(slot_s),
            batch_seconds_max=float(batch_s),
            files=ToyFiles(open_cache(Path(files), role, bytes_max=int(files_bytes)), NeededFiles()),
        )

    return asyncio.run(serve_until_signal(make, drain_s=240))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

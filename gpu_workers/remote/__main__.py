"""The entry point of a job on a cluster: `python -m gpu_workers.remote JOB_ID`.

It exchanges its token for the order, fetches the job's encrypted files into a folder in memory, and runs the job's
function as `gpu_workers.jobs.process` does. What the job has made leaves this machine encrypted under the job's key.
"""

import importlib.util
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from core.errors import BlobMissing, JobFilesLost
from core.files.encrypted_file import EncryptedFileWriter
from core.memory import limit_memory
from gpu_workers.jobs.process import job_function, run_job
from gpu_workers.jobs.protocol import OUTPUTS, JobOrder, Sharded, Succeeded, is_plain
from gpu_workers.remote.channel import Channel, GatewayLost, keep_quiet, memory_folder
from gpu_workers.remote.wire import MADE

_CHUNK_BYTES = 1024 * 1024


def encrypt_outputs(order: JobOrder) -> None:
    """Encrypt what the job has made, beside its checkpoints, so that it is stored with them."""
    made = order.folder / OUTPUTS
    for path in sorted(made.iterdir()) if made.is_dir() else ():
        name = f"{MADE}{path.name}"
        if not is_plain(name) or not path.is_file():
            continue
        (order.folder / name).unlink(missing_ok=True)  # of an earlier attempt
        partial = order.folder / f".{name}"
        writer = EncryptedFileWriter(partial, order.key, name)
        with path.open("rb") as file:
            while data := file.read(_CHUNK_BYTES):
                writer.write(data)
        writer.close()
        partial.replace(order.folder / name)


def run(job_id: str, folder: Path) -> None:
    """Raises as `Channel`."""
    channel = Channel(job_id, folder)
    order = channel.order
    if order.memory_bytes_max:
        limit_memory(order.memory_bytes_max)
    function = job_function(order.entry_point)
    if isinstance(function, Sharded) and importlib.util.find_spec("ray") is not None:
        from gpu_workers.remote.shards import ShardedOnCluster

        function = ShardedOnCluster(channel, function, job_id)
    outcome = run_job(order, channel.exchange, function)
    if isinstance(outcome, Succeeded):
        encrypt_outputs(order)
    channel.finish(outcome)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not re.fullmatch("[0-9a-f]{32}", arguments[0]):
        sys.stderr.write("privacy-gateway: the one argument is the id of a job\n")
        return 2
    errors = os.dup(2)
    keep_quiet()
    try:
        folder, lock = memory_folder()
    except OSError:
        os.write(errors, b"privacy-gateway: /dev/shm must be a tmpfs that this user may write to\n")
        return 1

    def end(_: int, __: FrameType | None) -> NoReturn:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        run(arguments[0], folder)
    except GatewayLost:
        os.write(errors, b"privacy-gateway: the gateway refused the job's token, or gave no answer\n")
        return 1
    except (BlobMissing, JobFilesLost):
        os.write(errors, b"privacy-gateway: the blob store of this environment has not the job's files\n")
        return 1
    except Exception as error:
        os.write(errors, f"privacy-gateway: the job cannot run: {type(error).__name__}\n".encode())
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

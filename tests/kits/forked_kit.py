"""What the tests of the fork server fork: a process that answers over its channel."""

import os
import sys
from multiprocessing.connection import Connection

loads = 0


def load() -> None:
    """A preload that can be seen."""
    global loads
    loads += 1


def fails() -> None:
    raise RuntimeError


def main() -> int:
    """Send what it is, then repeat each message until the channel closes."""
    from core.mechanisms.vectors.release import noise_generator

    with Connection(int(sys.argv[-1])) as channel:
        noise = noise_generator().standard_normal(4).tobytes()
        channel.send(
            {"arguments": sys.argv[1:-1], "pid": os.getpid(), "loads": loads, "noise": noise, "names": [*os.environ]}
        )
        try:
            while True:
                channel.send(channel.recv())
        except EOFError:
            return 3

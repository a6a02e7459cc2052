"""A process that sends back what it receives: `python -m echoing_process FD`."""

from __future__ import annotations

import contextlib
import sys
from multiprocessing.connection import Connection


def main() -> int:
    with contextlib.closing(Connection(int(sys.argv[1]))) as connection, contextlib.suppress(EOFError):
        while True:
            message = connection.recv()
            if message == b"end within a message":
                connection._send(b"\0\1\0\0half")  # type: ignore[attr-defined] # a message of 65,536 bytes
                return 0
            connection.send(message)
    return 0


if __name__ == "__main__":
    sys.exit(main())

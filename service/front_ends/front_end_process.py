"""The process of one front end: `python -m service.front_ends.front_end_process LIFELINE LOCK PIPE SOCKETS...`.

It is a gateway that accepts connections on sockets which the supervisor has opened. It inherits a lock, which shows
whether a front end of a supervisor that was killed is alive, and a pipe, which keeps the workers alive until then.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from service.config.settings import Settings
from service.front_ends.lifeline import Lifeline
from service.serve import Inherited, run


class _Listening(socket.socket):
    """A socket that listens already. The backlog is the supervisor's, for all front ends."""

    def listen(self, backlog: int = 0, /) -> None:
        """The event loop calls this with the number of connections that it accepts at a time."""


def main(descriptors: Sequence[int]) -> int:
    fd, lock, pipe, *sockets = descriptors
    lifeline = Lifeline(fd)
    for inherited in (lock, pipe, *sockets):
        os.set_inheritable(inherited, False)
    order = lifeline.order
    if not order:
        return 0  # the supervisor has ended meanwhile
    run(
        Settings(**order["settings"]),
        inherited=Inherited(
            name=order["name"],
            sockets=[_Listening(fileno=number) for number in sockets],
            own_dir=Path(order["own_dir"]),
            watch=lifeline.watch,
            report_ready=lifeline.report_ready,
        ),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main([int(argument) for argument in sys.argv[1:]]))

"""One gateway of a supervisor: `python -m service.processes.gateway_process LIFELINE LOCK SOCKETS... [FORK_SERVER]`.

It accepts connections on sockets which the supervisor has opened, and has its workers forked by the fork server of the
supervisor. It inherits a lock, which shows whether a gateway of a supervisor that was killed is alive.
"""

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_workers.fork_server import start_fork_server
from service.config.settings import Settings
from service.processes.child import Lifeline
from service.serve import Inherited, run


class _Listening(socket.socket):
    """A socket that listens already. The backlog is the supervisor's, for all gateways."""

    def listen(self, backlog: int = 0, /) -> None:
        """The event loop calls this with the number of connections that it accepts at a time."""


def main(descriptors: Sequence[int]) -> int:
    fd, *inherited = descriptors
    lifeline = Lifeline(fd)
    for each in inherited:
        os.set_inheritable(each, False)
    order = lifeline.order
    if not order:
        return 0  # the supervisor has ended meanwhile
    _, *sockets = inherited
    if order["fork_server"]:
        start_fork_server(connection=socket.socket(fileno=sockets.pop()))
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

"""Processes of a fork server: what they are, how they end, and what they do not share."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import forked_kit
import pytest
from gateway_kit import command_line, until_ended

from gpu_workers.fork_server import Forked, ForkServer, allowed

MODULE = "forked_kit"


@pytest.fixture
def server(processes: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    monkeypatch.setenv("PRIVACY_GATEWAY_MASTER_KEY", "a secret")
    monkeypatch.setenv("PYTHONPATH", str(Path(forked_kit.__file__).parent))
    started = ForkServer(["forked_kit:load", "forked_kit:fails", "no_such_module"])
    yield started
    started.close()


def forked(server: ForkServer, *arguments: str, preload: tuple[str, ...] = ()) -> tuple[Forked, Connection]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = server.fork(MODULE, arguments, theirs.fileno(), preload=preload)
    return process, Connection(ours.detach())


def parent(process: Forked) -> int:
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_fork_runs_its_module_with_what_was_preloaded(server: ForkServer) -> None:
    process, channel = forked(server, "embed", preload=("forked_kit:load",))
    with channel:
        said: dict[str, Any] = channel.recv()
        assert said["pid"] == process.pid
        assert said["arguments"] == ["embed"]
        assert said["loads"] == 1, "each preload is called once"
        assert all(allowed(name) for name in said["names"])
        assert f"-m {MODULE} embed" in command_line(process.pid)
        channel.send("hello")
        assert channel.recv() == "hello"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
    process.wait(60)
    until_ended(process.pid)


def test_forks_draw_different_noise(server: ForkServer) -> None:
    drawn = []
    for _ in range(3):
        process, channel = forked(server)
        with channel:
            drawn.append(channel.recv()["noise"])
        process.wait(60)
    assert len(set(drawn)) == 3


def test_a_fork_that_is_killed_closes_its_channel_and_no_other(server: ForkServer) -> None:
    one, channel_of_one = forked(server)
    other, channel_of_other = forked(server)
    channel_of_one.recv()
    channel_of_other.recv()
    one.kill()
    with pytest.raises((EOFError, ConnectionResetError)):
        channel_of_one.recv()
    one.wait(60)
    one.kill()  # has ended: nothing happens
    channel_of_other.send("still here")
    assert channel_of_other.recv() == "still here"
    channel_of_other.close()
    other.wait(60)


def test_a_fork_server_that_died_is_replaced_and_its_forks_live(server: ForkServer) -> None:
    first, channel = forked(server)
    channel.recv()
    its_server = parent(first)
    os.kill(its_server, signal.SIGKILL)
    until_ended(its_server)
    second, other = forked(server)
    assert other.recv()["pid"] == second.pid
    channel.send("still here")
    assert channel.recv() == "still here"
    server.close()
    other.close()
    channel.close()
    first.wait(60)
    second.wait(60)


def test_another_process_shares_a_fork_server_until_it_dies(server: ForkServer) -> None:
    own, channel = forked(server)
    shared = ForkServer(connection=server.connect())
    other, channel_of_other = forked(shared)
    assert {channel.recv()["pid"], channel_of_other.recv()["pid"]} == {own.pid, other.pid}
    assert parent(own) == parent(other)
    shared.close()
    with pytest.raises(OSError, match="was ended"):
        forked(shared)
    forked(server)[1].close()

    shared = ForkServer(connection=server.connect())
    os.kill(parent(own), signal.SIGKILL)
    another, channel_of_another = forked(shared)
    assert channel_of_another.recv()["pid"] == another.pid
    shared.close()
    for each, end in ((own, channel), (other, channel_of_other), (another, channel_of_another)):
        end.close()
        each.wait(60)


def test_a_request_whose_answer_is_lost_is_not_sent_again(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    receive = socket.recv_fds

    def lost(*arguments: Any) -> tuple[bytes, list[int], int, None]:
        _, descriptors, *_ = receive(*arguments)
        for descriptor in descriptors:
            os.close(descriptor)
        return b"", [], 0, None

    with monkeypatch.context() as patched, theirs:
        patched.setattr(socket, "recv_fds", lost)
        with pytest.raises(OSError, match="could not start"):
            server.fork(MODULE, [], theirs.fileno())
    with Connection(ours.detach()) as channel:
        pid = channel.recv()["pid"]
        channel.send("only one answers")
        assert channel.recv() == "only one answers"
        assert not channel.poll(0)
    until_ended(pid)

    server.close()
    with pytest.raises(OSError, match="was ended"):
        forked(server)


def test_a_module_that_cannot_be_imported_ends_its_fork_alone(server: ForkServer) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = server.fork("no_such_module", [], theirs.fileno())
    process.wait(60)
    with Connection(ours.detach()) as channel, pytest.raises(EOFError):
        channel.recv()
    process, channel = forked(server)
    with channel:
        assert channel.recv()["pid"] == process.pid

"""The process of a move ends before or after any of its commands: a budget counts once, and nothing is lost.

After each crash at most one ledger admits a release, new gateways start on both, and the audits pass. Then another run
ends the move, or aborts it. The default run takes some of the commands, and runs with --all take all on the embedded
server; `make test-long` takes all on both.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from move_kit import (
    TENANT,
    Crash,
    Plan,
    Snapshot,
    admitted,
    fill,
    keys_of,
    names_of,
    opened,
    replayed,
    sound,
    spent,
)
from redis_kit import DeployedServer, EmbeddedServer

from core.errors import LedgerNotTrusted
from core.move_errors import MoveRefused

STEP = 13  # of the default run
every_server = pytest.mark.parametrize(
    "server",
    [
        pytest.param(EmbeddedServer, id="embedded-socket"),
        pytest.param(DeployedServer, id="debian-tcp", marks=pytest.mark.long),
    ],
    indirect=True,
    scope="module",
)


class Scene:
    """A tenant on `main`, and how many commands a move of it takes; on `east` if it comes back."""

    def __init__(self, go, sites, mover, *, returns):
        self.go, self.mover = go, mover
        main, east = sites
        go(opened(main))
        go(fill(main))
        self.source, self.target = (east, main) if returns else (main, east)
        if returns:
            go(mover.run(main, east))
            go(admitted(sites))
            go(east.shelf.fold())
        go(sound(sites))
        self.sites = sites
        self.start = [go(Snapshot(site).take()) for site in sites]
        self.spent = go(spent(self.source))
        self.keys = keys_of(go(self.source.contents()))
        whole = Plan()
        go(mover.run(self.source, self.target, plan=whole))
        self.commands = whole.commands
        self.began = False

    def crash(self, at, *, after, **run):
        """Begin again, end the process at that command, and return how many releases were admitted since."""
        for snapshot in self.start:
            self.go(snapshot.restore())
        with pytest.raises(Crash):
            self.go(self.mover.run(self.source, self.target, plan=Plan(at, after)))
        return self.check()

    def check(self):
        found = self.go(admitted(self.sites))
        assert len(found) <= 1
        self.go(sound(self.sites))
        return found

    def check_end(self, site, more):
        """The tenant is on this ledger with all that it had, and nothing was charged but what was admitted."""
        go = self.go
        kept = {name: value for name, value in self.keys.items() if name.split(":")[0] in STILL}
        now = go(site.contents())
        assert {name: now[name] for name in kept} == kept
        assert go(replayed(site, "key-0")) == b"answer 0"
        assert go(spent(site)) == self.spent + more
        assert go(admitted(self.sites)) == [site.name]
        assert go(spent(site)) == self.spent + more + 1
        go(sound(self.sites))


STILL = ("claim", "response", "vault", "files", "job", "jobs", "reuse", "series", "spending")
CASES = [(after, returns) for after in (False, True) for returns in (False, True)]


def points(scene, *, every):
    return range(1, scene.commands + 1, 1 if every else STEP)


def runs(go, sites, mover, after, returns, every):
    scene = Scene(go, sites, mover, returns=returns)
    for at in points(scene, every=every):
        more = len(scene.crash(at, after=after))
        go(mover.run(scene.source, scene.target))
        scene.check_end(scene.target, more)
        assert go(names_of(scene.source)) == set()


def aborts(go, sites, mover, after, returns, every):
    scene = Scene(go, sites, mover, returns=returns)
    for at in points(scene, every=every):
        more = len(scene.crash(at, after=after))
        try:
            go(mover.run(scene.source, scene.target, abort=True))
        except MoveRefused:
            scene.check_end(scene.target, more)
        else:
            scene.check_end(scene.source, more)
            assert returns or go(scene.target.contents()) == {}


@pytest.mark.parametrize(("after", "returns"), CASES)
def test_another_run_ends_what_a_crash_left(go, sites, mover, after, returns):
    runs(go, sites, mover, after, returns, every=False)


@pytest.mark.slow("crash")
@every_server
@pytest.mark.parametrize(("after", "returns"), CASES)
def test_another_run_ends_what_a_crash_at_any_command_left(go, sites, mover, after, returns):
    runs(go, sites, mover, after, returns, every=True)


@pytest.mark.parametrize(("after", "returns"), CASES[:2])
def test_a_move_that_a_crash_ended_can_be_aborted(go, sites, mover, after, returns):
    aborts(go, sites, mover, after, returns, every=False)


@pytest.mark.slow("crash")
@every_server
@pytest.mark.parametrize(("after", "returns"), CASES)
def test_a_move_that_a_crash_ended_at_any_command_can_be_aborted(go, sites, mover, after, returns):
    aborts(go, sites, mover, after, returns, every=True)


@pytest.mark.parametrize("returns", [False, True])
def test_an_abort_that_a_crash_ended_can_be_continued(go, sites, mover, returns):
    """The move ends just before it writes the tenant's new home, and the abort at any of its commands."""
    scene = Scene(go, sites, mover, returns=returns)

    def stop(step):
        if step == "activating":
            raise Crash

    def closed():
        for snapshot in scene.start:
            go(snapshot.restore())
        with pytest.raises(Crash):
            go(mover.run(scene.source, scene.target, report=stop))

    closed()
    whole = Plan()
    go(mover.run(scene.source, scene.target, plan=whole, abort=True))
    for at in range(1, whole.commands + 1, 7):
        closed()
        with pytest.raises(Crash):
            go(mover.run(scene.source, scene.target, plan=Plan(at, after=at % 2 == 0), abort=True))
        more = len(scene.check())
        go(mover.run(scene.source, scene.target, abort=True))
        scene.check_end(scene.source, more)
        assert go(mover.run(scene.source, scene.target)).tenant == TENANT
        assert go(admitted(scene.sites)) == [scene.target.name]


@pytest.mark.parametrize("abort", [True, False])
def test_the_command_of_the_earlier_move_does_not_use_its_older_copy(go, sites, mover, abort):
    """A tenant moves to `east`, and a crash ends its return. Then the move to `east` is aborted, or made again."""
    wrong(go, sites, mover, abort, every=False)


@pytest.mark.slow("crash")
@every_server
@pytest.mark.parametrize("abort", [True, False])
def test_the_command_of_the_earlier_move_after_a_crash_at_any_command(go, sites, mover, abort):
    wrong(go, sites, mover, abort, every=True)


def wrong(go, sites, mover, abort, *, every):
    scene = Scene(go, sites, mover, returns=True)
    main, east = sites
    refused = 0
    for at in points(scene, every=every):
        more = len(scene.crash(at, after=True))
        try:
            go(mover.run(main, east, abort=abort))
        except (MoveRefused, LedgerNotTrusted):
            refused += 1
        more += len(scene.check())
        with suppress(MoveRefused):
            go(mover.run(main, east, abort=True))
        more += len(scene.check())
        with suppress(MoveRefused):
            go(mover.run(east, main))
        assert go(spent(main)) == scene.spent + more, at
        assert go(admitted(sites)) == ["main"]
        go(sound(sites))
    assert refused

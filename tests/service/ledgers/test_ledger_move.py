"""`privacy-gateway ledger move`: a tenant changes its ledger while gateways serve it, and its budget counts once."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from command_kit import Finished, run_command
from inprocess_kit import Gateway
from redis_kit import EmbeddedServer
from several_ledgers_kit import BODY, series, settings, until

from core.ledger import names

MORE = BODY | {"epsilon": 0.25}


class Callers:
    """Sends releases of one tenant until it is stopped, and counts the answers."""

    def __init__(self, gateway: Gateway, key: str) -> None:
        self._http = gateway.client(key)
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(3)]
        self._lock = threading.Lock()
        self.answers: dict[str, int] = {}
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        while not self._stopping.is_set():
            answer = self._http.post("/embed/sentdp", json=MORE)
            outcome = "released" if answer.status_code == 200 else answer.json()["code"]
            with self._lock:
                self.answers[outcome] = self.answers.get(outcome, 0) + 1

    def stop(self) -> dict[str, int]:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        return self.answers


def test_a_tenant_moves_and_comes_back_while_it_is_used(
    gateway: Gateway, servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path
) -> None:
    main, east = servers
    environment = settings(main, east=east)

    def command(*arguments: str) -> Finished:
        return run_command(tmp_path / "data", "ledger", *arguments, environment=environment)

    tenant = gateway.tenant("mover", epsilon=1000, ledger="main", subject_epsilon=None)
    stays = gateway.tenant("stays", epsilon=10, ledger="main")
    once = tenant.http.post("/embed/sentdp", json=BODY, headers={"Idempotency-Key": "once"})
    assert once.status_code == 200
    spent = 1.0
    for target, other in (("east", "main"), ("main", "east")):
        callers = Callers(gateway, tenant.key)
        until(lambda callers=callers: callers.answers.get("released", 0) >= 2)
        moved = command("move", "mover", "--to", target, "--json")
        assert moved.returncode == 0, moved.stderr
        before = callers.answers.get("released", 0)
        until(lambda callers=callers, before=before: callers.answers.get("released", 0) >= before + 2)
        answers = callers.stop()
        assert set(answers) <= {"released", "tenant-moving"}
        spent += 0.25 * answers["released"]
        assert tenant.committed() == spent
        homes = json.loads(command("homes", "--json").stdout)
        assert homes == {"mover": target, "stays": "main"}

        again = tenant.http.post("/embed/sentdp", json=BODY, headers={"Idempotency-Key": "once"})
        assert again.content == once.content
        assert tenant.committed() == spent
        releases = 4 * (spent - 1) + 1
        until(lambda releases=releases: series(tenant) == releases)
        exported = tenant.http.get("/budget/mover/sentence/journal/export?format=jsonl").text.splitlines()
        assert sum(json.loads(line)["transition"] == "commit" for line in exported) == releases

        audit = command("audit", "--json")
        assert audit.returncode == 0, audit.stdout
        found = json.loads(audit.stdout)["ledgers"]
        assert "mover" in {one["tenant"] for one in found[target]["tenants"]}
        server = main if other == "main" else east
        assert not list(server.admin().scan_iter("{mover}:claim:*"))
        assert command("move", "mover", "--to", target).returncode == 0  # which changes nothing
        assert tenant.committed() == spent
    assert stays.committed() == 0
    assert stays.http.post("/embed/sentdp", json=BODY).status_code == 200
    logged = [entry["action"] for entry in gateway.admin_log() if entry["target"] == "mover"]
    assert logged == ["tenant.create", *["ledger.move", "ledger.moved"] * 4]


def test_a_move_waits_for_open_holds_and_can_be_given_up(
    gateway: Gateway, servers: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path
) -> None:
    main, east = servers
    environment = settings(main, east=east)
    tenant = gateway.tenant("mover", epsilon=10, ledger="main")
    main.admin().hincrby(names.tenant_key("mover"), "holds", 1)  # as of a release that another gateway works on
    arguments = ("ledger", "move", "mover", "--to", "east")
    refused = run_command(tmp_path / "data", *arguments, "--wait-s", "0", environment=environment)
    assert refused.returncode == 1
    assert "1 open holds" in refused.stderr
    assert tenant.http.post("/embed/sentdp", json=BODY).status_code == 200  # served as before
    main.admin().hset(names.tenant_key("mover"), "closing", f"{'0' * 32}:east")  # as of a run that has ended
    moving = tenant.http.post("/embed/sentdp", json=BODY)
    assert (moving.status_code, moving.json()["code"]) == (503, "tenant-moving")
    assert moving.headers["Retry-After"]
    given_up = run_command(tmp_path / "data", *arguments, "--abort", environment=environment)
    assert given_up.returncode == 0, given_up.stderr
    assert tenant.http.post("/embed/sentdp", json=BODY).status_code == 200
    main.admin().hincrby(names.tenant_key("mover"), "holds", -1)
    moved = run_command(tmp_path / "data", *arguments, environment=environment)
    assert moved.returncode == 0, moved.stderr
    assert tenant.committed() == 2

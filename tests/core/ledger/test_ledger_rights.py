"""The rights of the ledger's Redis user, by deploy/users.acl: what the ledger needs, and nothing that wipes it."""

import contextlib
import re
import time
from pathlib import Path

import pytest
import redis
from ledger_kit import MASTER_KEY, charge
from redis_kit import DEPLOY, REDIS_PASSWORD, DeployedServer, plain

import core
from core.amounts import NANO, Amount
from core.errors import LedgerUnavailable
from core.ledger.transitions import Ledger
from core.redis.client import LedgerClient, connect

ACCOUNT = "{acme}:account:token"
CORE = Path(core.__file__).parent
# what the connection itself sends: the scripts, and a sign of life
OF_THE_CLIENT = {"evalsha", "eval", "ping"}

# what neither user may do: wipe or move the ledger, weaken the server, look around, or touch other keys. A test below
# shows that the users have no right that the code does not use.
NEVER = [
    ("FLUSHALL",), ("DEL", ACCOUNT), ("RENAME", ACCOUNT, "{acme}:account:renamed"), ("XDEL", "{acme}:journal", "1-0"),
    ("KEYS", "*"), ("CONFIG", "SET", "appendfsync", "no"), ("SHUTDOWN", "NOSAVE"),
    ("ACL", "SETUSER", "gateway", "+@all"), ("SCRIPT", "FLUSH"), ("CLIENT", "KILL", "TYPE", "normal"),
    ("SET", "elsewhere", "x"), ("GET", "elsewhere"),
]  # fmt: skip
REFUSED = {
    "gateway": [*NEVER, ("XTRIM", "{acme}:journal", "MAXLEN", 0)],
    "archiver": [
        *NEVER, ("SET", ACCOUNT, "x"), ("HSET", ACCOUNT, "committed", "x"), ("XADD", "{acme}:journal", "*", "a", "b"),
        ("XTRIM", "api-key:0", "MAXLEN", 0), ("HGETALL", ACCOUNT),
    ],
}  # fmt: skip

on_a_deployment = pytest.mark.parametrize("server", [DeployedServer], indirect=True, ids=["debian-tcp"])


def test_a_command_that_a_user_never_sends_is_refused(go, acme, server):
    before = go(acme.accounts("acme"))
    for user, url in (("gateway", server.url), ("archiver", server.archiver_url)):
        for command in REFUSED[user]:
            with plain(url) as connection, pytest.raises(redis.exceptions.NoPermissionError):
                connection.execute_command(*command)
    assert go(acme.accounts("acme")) == before


@pytest.mark.slow("installation")
@on_a_deployment
def test_an_installed_server_refuses_the_same(go, acme, admin):
    for user, commands in REFUSED.items():
        for command in [*commands, ("FUNCTION", "FLUSH")]:
            assert b"no permissions" in go(admin.call("ACL", "DRYRUN", user, *command)), command


def test_a_script_has_no_more_rights_than_its_caller(go, acme, server):
    with plain(server.url) as gateway:
        for script in ("return redis.call('DEL', KEYS[1])", "return redis.call('SET', 'elsewhere', 'x')"):
            with pytest.raises(redis.exceptions.ResponseError, match=r"can't (run|access)"):
                gateway.execute_command("EVAL", script, 1, ACCOUNT)
    assert len(go(acme.accounts("acme"))) == 4


def test_nobody_else_gets_in(go, ledger, server):
    go(ledger.check())
    for credentials in ("", f":{REDIS_PASSWORD}@", "default:@", "gateway:wrong@", f"admin:{REDIS_PASSWORD}@"):
        client = LedgerClient(connect(url=f"unix://{credentials}{server.socket}"))
        with pytest.raises(LedgerUnavailable, match="credentials"):
            go(Ledger(client, MASTER_KEY).check())
        go(client.close())


@pytest.mark.slow("installation")
@on_a_deployment
def test_an_operator_without_a_password_is_nobody(server, tmp_path):
    """The password of `admin` is a random one when none is set, not an empty one."""
    locked = DeployedServer(tmp_path)
    locked.admin_url = locked.url  # it answers PING
    locked.start(REDIS_ADMIN_PASSWORD="")
    try:
        for password in ("", "admin", "ADMIN_PASSWORD_SHA256"):
            with pytest.raises(redis.exceptions.AuthenticationError):
                plain(f"redis://admin:{password}@127.0.0.1:{locked.port}").execute_command("ACL", "WHOAMI")
        written = (tmp_path / "users.acl").read_text()
        assert REDIS_PASSWORD not in written
        assert "SHA256" not in written
    finally:
        locked.stop()


def test_the_password_is_replaced_while_the_ledger_is_in_use(go, acme, admin, server):
    """The procedure of docs/operating/security.md."""
    renewed = LedgerClient(connect(url=server.url.replace(REDIS_PASSWORD, "renewed")))
    late = LedgerClient(connect(url=server.url))
    try:
        go(admin.call("ACL", "SETUSER", "gateway", ">renewed"))
        assert go(Ledger(renewed, MASTER_KEY).accounts("acme")) == go(acme.accounts("acme"))
        go(admin.call("ACL", "SETUSER", "gateway", f"<{REDIS_PASSWORD}"))
        with pytest.raises(LedgerUnavailable, match="credentials"):
            go(late.call("PING"))
        go(Ledger(renewed, MASTER_KEY).reserve("acme", [charge(1)]))
    finally:
        go(admin.call("ACL", "SETUSER", "gateway", f">{REDIS_PASSWORD}"))
        go(renewed.close())
        go(late.close())


@pytest.mark.slow("installation")
@on_a_deployment
def test_everything_is_there_after_a_restart(go, acme, server):
    """Redis 7.0 reads its file as the user `default`, and drops the transactions that this user may not run."""
    go(acme.commit("acme", go(acme.reserve("acme", [charge(1)])).release_id))
    before = go(acme.accounts("acme"))
    server.stop()
    server.start()
    assert go(acme.accounts("acme")) == before
    assert "NOPERM" not in server.log.read_text()


def give_rights_back(go, admin, ledger):
    """The server ends every user's connections at this, the asking one's too: ask until it answers on new ones."""
    go(admin.call("ACL", "LOAD"))
    for ask in (lambda: admin.call("PING"), lambda: ledger.accounts("acme")):
        for _ in range(100):
            with contextlib.suppress(LedgerUnavailable):
                go(ask())
                break
            time.sleep(0.05)


def test_rights_that_are_taken_away_at_run_time_end_in_no_release(go, acme, admin):
    hold = go(acme.reserve("acme", [charge(1)]))
    go(admin.call("ACL", "SETUSER", "gateway", "off"))
    go(admin.call("CLIENT", "KILL", "USER", "gateway"))
    try:
        with pytest.raises(LedgerUnavailable):
            go(acme.reserve("acme", [charge(1)]))
        with pytest.raises(LedgerUnavailable):
            go(acme.commit("acme", hold.release_id))
    finally:
        give_rights_back(go, admin, acme)
    go(admin.call("ACL", "SETUSER", "gateway", "-evalsha"))
    try:
        with pytest.raises(LedgerUnavailable, match="permit"):
            go(acme.reserve("acme", [charge(1)]))
        with pytest.raises(LedgerUnavailable, match="permit"):
            go(acme.commit("acme", hold.release_id))
    finally:
        give_rights_back(go, admin, acme)
    assert go(acme.account("acme", "acme/sentence")).reserved == Amount(NANO)
    go(acme.commit("acme", hold.release_id))
    assert go(acme.account("acme", "acme/sentence")).committed == Amount(NANO)


def rights(user: str) -> set[str]:
    (line,) = (line for line in (DEPLOY / "users.acl").read_text().splitlines() if line.startswith(f"user {user} "))
    return set(re.findall(r" \+(\S+)", line))


def calls(paths) -> set[str]:
    called = set()
    for path in paths:
        for first, second in re.findall(r'\bcall\(\s*"([A-Z]+)"(?:,\s*"([A-Z]+)")?', path.read_text()):
            called.add("config|get" if (first, second) == ("CONFIG", "GET") else first.lower())
        called |= {first.lower() for first in re.findall(r'\("([A-Z]+)", (?!")', path.read_text())}  # of `call_many`
    return called


def test_the_rights_are_what_the_code_calls():
    """A right that nothing uses goes; embedded.py talks to the gateway's own server, which has no users."""
    trim = CORE / "ledger/archive/trim.lua"  # run by the archiver
    folders = [CORE / name for name in ("redis", "ledger", "reports", "state")]
    paths = {path for folder in folders for end in ("lua", "py") for path in folder.rglob(f"*.{end}")}
    paths -= {CORE / "redis/embedded.py", trim}
    assert rights("gateway") == calls(paths) | OF_THE_CLIENT
    checks_of_a_connection = {"config|get", "get", "xrange", "time"}
    assert rights("archiver") == calls([trim]) | checks_of_a_connection | OF_THE_CLIENT

"""The admin key: what is no key keeps the gateway from starting, and an empty credential is nobody's."""

from __future__ import annotations

import asyncio
import stat
from http.client import HTTPConnection
from pathlib import Path

import pytest
import uvicorn
from command_kit import refused_settings
from gateway_kit import refused_start
from pydantic import SecretStr

from service.app import create_app
from service.config.settings import Settings
from service.gateway import Gateway
from service.serve import _port, _Server

BARE = ("Bearer", "Bearer ", "Bearer  ", "bearer", "Bearer \t")
MADE = "pga_0123456789abcdef0123456789abcdef"


def test_a_variable_that_is_set_to_nothing_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    said = refused_settings(tmp_path, {"PRIVACY_GATEWAY_ADMIN_KEY": ""})

    assert "ADMIN_KEY" in said
    assert not (tmp_path / "admin.key").exists()


@pytest.mark.usefixtures("processes")
def test_a_file_of_no_bytes_keeps_the_gateway_from_starting_and_stays(tmp_path: Path) -> None:
    """A copy on a full disk can leave it empty."""
    path = tmp_path / "admin.key"
    path.touch(mode=0o600)

    said = refused_start(tmp_path, {})

    assert str(path) in said
    assert "delete" in said, "it says what to do"
    assert path.read_bytes() == b""


NO_KEYS = {
    "empty": "",
    "blank": "   ",
    "short": "0" * 31,
    "blank inside": "0" * 20 + " " + "0" * 20,
    "not ASCII": "\u00e4" * 40,
    "cut short": MADE[:-1],
    "cut in half": MADE[:20],
    "zero bytes": "\0" * 37,
}


@pytest.mark.parametrize("value", NO_KEYS.values(), ids=NO_KEYS)
def test_a_setting_that_is_no_admin_key_is_an_error_that_does_not_show_it(tmp_path: Path, value: str) -> None:
    with pytest.raises(ValueError, match="admin_key") as caught:
        Settings(data_dir=tmp_path, admin_key=SecretStr(value))

    assert not value.strip() or value.strip() not in str(caught.value)


@pytest.mark.parametrize("content", NO_KEYS.values(), ids=NO_KEYS)
def test_a_file_that_holds_no_whole_key_is_refused_and_stays(tmp_path: Path, content: str) -> None:
    path = tmp_path / "admin.key"
    path.write_text(f"{content}\n")
    path.chmod(0o600)

    with pytest.raises(ValueError, match="delete") as caught:
        Gateway(Settings(data_dir=tmp_path))

    assert str(path) in str(caught.value)
    assert not content.strip() or content not in str(caught.value)
    assert path.read_text() == f"{content}\n"


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "admin.key"
    path.write_text(f"{MADE}\n")
    path.chmod(0o640)

    with pytest.raises(ValueError, match="owner"):
        Gateway(Settings(data_dir=tmp_path))


def test_the_key_is_made_once_and_kept(tmp_path: Path) -> None:
    first = Gateway(Settings(data_dir=tmp_path))
    path = tmp_path / "admin.key"

    assert first.admin_keys[0] == path.read_text().strip()
    assert len(first.admin_keys[0]) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Gateway(Settings(data_dir=tmp_path)).admin_keys[0] == first.admin_keys[0]
    path.write_text(f"  {'k' * 32}  \n")
    assert Gateway(Settings(data_dir=tmp_path)).admin_keys[0] == "k" * 32, "the operator's own"


def statuses(port: int, presented: str) -> list[int]:
    """Of listing the tenants and of creating one. `http.client` sends a header as it is."""
    headers = {"Authorization": presented, "Content-Type": "application/json"}
    found = []
    for method, body in (("GET", None), ("POST", '{"name": "intruder", "epsilon": 1000000}')):
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, "/admin/tenants", body, headers)
        found.append(connection.getresponse().status)
        connection.close()
    return found


@pytest.mark.parametrize("is_empty", [False, True], ids=["a key", "an empty key"])
def test_over_http_a_bearer_without_a_key_is_nobody(tmp_path: Path, is_empty: bool) -> None:
    """Even if something had made the gateway's own key empty."""

    async def answers() -> dict[str, list[int]]:
        gateway = Gateway(Settings(data_dir=tmp_path))
        gateway.authenticator._admin_keys = ("",) if is_empty else gateway.admin_keys
        assert gateway._redis is not None
        await gateway._redis.start()
        server = _Server(uvicorn.Config(create_app(gateway), port=0, lifespan="off", log_config=None))
        serving = asyncio.create_task(server.serve())
        try:
            while not server.started:
                await asyncio.sleep(0.01)
            return {each: await asyncio.to_thread(statuses, _port(server), each) for each in BARE}
        finally:
            server.should_exit = True
            await serving
            await gateway.ledger.close()
            await gateway._redis.stop()

    assert asyncio.run(answers()) == {each: [401, 401] for each in BARE}

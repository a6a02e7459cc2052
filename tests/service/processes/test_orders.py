"""What the supervisor sends its gateways."""

import os
from pathlib import Path

import pytest

from service.config.settings import Settings
from service.processes.supervisor import gateway_order, own_dir


def settings(tmp_path: Path, *, encoder_threads: int = 0) -> Settings:
    return Settings(data_dir=tmp_path, admin_port=9000, processes=3, encoder_threads=encoder_threads)


def test_gateways_share_the_data_directory_and_have_ports_and_folders_of_their_own(tmp_path: Path) -> None:
    given = settings(tmp_path)
    redis = tmp_path / "a b" / "redis.sock"
    orders = [gateway_order(given, number, redis=redis, fork_server=True) for number in (1, 2, 3)]
    assert [order["settings"]["admin_port"] for order in orders] == [9000, 9001, 9002]
    assert len({order["own_dir"] for order in orders}) == 3
    assert own_dir(given, 1) == tmp_path, "so that the work of a gateway of one process goes on"
    assert {order["settings"]["data_dir"] for order in orders} == {str(tmp_path)}
    assert Settings(**orders[1]["settings"]).redis_url == f"unix://{tmp_path}/a%20b/redis.sock"


def test_a_redis_elsewhere_stays_that_of_the_settings(tmp_path: Path) -> None:
    own = gateway_order(settings(tmp_path), 1, redis=None, fork_server=True)["settings"]
    assert "redis_url" not in own


@pytest.mark.parametrize(("processors", "threads", "each"), [(8, 0, 2), (2, 0, 1), (8, 4, 4)])
def test_gateways_divide_the_processors_unless_the_settings_say_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int, threads: int, each: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    own = gateway_order(settings(tmp_path, encoder_threads=threads), 1, redis=None, fork_server=True)["settings"]
    assert own["encoder_threads"] == each

"""What the supervisor sends its processes."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_workers.engine.protocol import Role
from service.config.settings import Settings
from service.front_ends.orders import front_end_order, own_dir, placed_workers, worker_order

TOKEN = "0123456789abcdef" * 4
KEY = "ab" * 32


def settings(tmp_path: Path) -> Settings:
    return Settings(
        data_dir=tmp_path,
        master_key=KEY,
        admin_key="cd" * 32,
        redis_url="redis://user:password-of-redis@localhost",
        devices=("cuda:0", "cuda:1"),
        request_timeout_s=400,
        hold_ttl_s=500,
        admin_port=9000,
        processes=3,
        infill="http://127.0.0.1:1/v1",
        infill_model="model",
        infill_api_key="key-of-the-endpoint",
    )


def test_a_worker_gets_what_it_needs_and_no_key_of_the_gateway(tmp_path: Path) -> None:
    given = settings(tmp_path)
    workers = placed_workers(given, tmp_path, start="0")
    assert [(worker.role, worker.device) for worker in workers] == [
        (Role.EMBED, "cuda:0"),
        (Role.EMBED, "cuda:1"),
        (Role.SANITIZE, None),
        (Role.FILL, None),
    ]
    assert len({worker.listen for worker in workers}) == 4
    sent = json.dumps(worker_order(given, workers[0], TOKEN))
    assert not any(secret in sent for secret in (KEY, "cd" * 32, "password-of-redis"))

    read = Settings(**json.loads(sent)["settings"])
    assert read.devices == given.devices
    assert read.request_timeout_s == 400
    assert read.infill_source == given.infill_source
    assert read.workers_token is not None
    assert read.workers_token.get_secret_value() == TOKEN


def test_front_ends_share_the_data_directory_and_have_ports_and_folders_of_their_own(tmp_path: Path) -> None:
    given = settings(tmp_path)
    workers = placed_workers(given, tmp_path, start="0")
    orders = [
        front_end_order(given, number, redis=tmp_path / "a b" / "redis.sock", workers=workers, token=TOKEN)
        for number in (1, 2, 3)
    ]
    assert [order["settings"]["admin_port"] for order in orders] == [9000, 9001, 9002]
    assert len({order["own_dir"] for order in orders}) == 3
    assert own_dir(given, 1) == tmp_path, "so that the work of a gateway of one process goes on"
    assert {order["settings"]["data_dir"] for order in orders} == {str(tmp_path)}
    read = Settings(**orders[1]["settings"])
    assert read.engine == "remote"
    assert len(read.workers) == 4
    assert read.redis_url == f"unix://{tmp_path}/a%20b/redis.sock"


def test_servers_elsewhere_and_a_redis_elsewhere_stay_those_of_the_settings(tmp_path: Path) -> None:
    workers = ("embed=10.0.0.5:1", "sanitize=10.0.0.5:2")
    given = Settings(data_dir=tmp_path, engine="remote", workers=workers, workers_token=TOKEN, workers_plain=True)
    assert placed_workers(given, tmp_path, start="0") == []
    own = front_end_order(given, 1, redis=None, workers=[], token=TOKEN)["settings"]
    assert set(own) == {"data_dir", "host", "port", "admin_port", "processes"}

"""A setting of Redis that stops being durable while the gateway runs: nothing is released until it is right again."""

from pathlib import Path

from alert_kit import until
from corpus_kit import rows, submit
from inprocess_kit import opened_gateway
from redis_kit import plain

from core.redis.embedded import socket_path
from service import metrics


def test_releases_stop_while_a_setting_is_wrong_and_resume(tmp_path: Path) -> None:
    with opened_gateway(
        tmp_path, changes={"service.operation.maintenance.DURABILITY_INTERVAL_S": 0.05, "ready_cache_s": 0}
    ) as gateway:
        tenant = gateway.tenant()
        assert tenant.embed().status_code == 200
        before = tenant.account()["committed"]
        redis = plain(f"unix://{socket_path(tmp_path / 'data')}")
        redis.config_set("appendfsync", "everysec")
        until(lambda: tenant.embed().status_code == 503)
        refused = tenant.embed()
        assert (refused.status_code, refused.json()["code"]) == (503, "ledger-unavailable")
        assert tenant.http.get("/readyz").status_code == 503
        assert submit(tenant.http, rows(2)).status_code == 503
        assert not [path for path in (gateway.data_dir / "jobs").iterdir() if path.is_dir()], "no job is made"
        until(lambda: metrics.LEDGER_DURABLE._value.get() == 0)  # another gateway of this process sets it, too

        redis.config_set("appendfsync", "always")
        until(lambda: tenant.http.get("/readyz").status_code == 200)
        until(lambda: metrics.LEDGER_DURABLE._value.get() == 1)
        assert tenant.embed().status_code == 200
        assert tenant.account()["committed"]["epsilon"] > before["epsilon"]

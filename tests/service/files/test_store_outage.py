"""An object store that is away: what needs it fails before anything is charged, and everything else goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus_kit import embedding_rows, json_lines, upload
from gateway_kit import LEAN
from inprocess_kit import opened_gateway
from s3_kit import S3Server, s3_server
from synthesis_kit import shop_request, shop_rows

from core.state.stored_files import DOMAINS
from gpu_workers.packs import pack_paths
from service.files.stored import StoredFiles

RECORD = {"epsilon": 3.0, "delta": 1e-4, "basic_delta": 1e-4}


@pytest.fixture
def server(processes: None) -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


def test_nothing_is_charged_for_what_needs_a_store_that_is_away(server: S3Server, tmp_path: Path) -> None:
    stored = LEAN | server.environment(server.bucket())
    with opened_gateway(tmp_path, stored, changes={"core.blobs.options.STORE_RETRIES_MAX": 0}) as gateway:
        tenant = gateway.tenant(record=RECORD)
        general = pack_paths()["general"]
        gateway.on_loop(gateway.service.parts[StoredFiles].put(tenant.name, DOMAINS, "own", {".safetensors": general}))
        assert tenant.embed(domain="own").status_code == 200
        (copy,) = (tmp_path / "data/cache/domains/tenants" / tenant.name).glob("own.*.safetensors")
        copy.unlink()
        server.process.kill()
        server.process.wait()

        answers = [
            tenant.embed(domain="own"),
            upload(tenant.http, json_lines(embedding_rows(110, dimension=8))),
            tenant.http.post("/jobs/synthesis", json=shop_request() | {"rows": shop_rows(60)}),
        ]
        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(503, "store-unavailable")] * 3
        assert all(answer.json()["reason"] == "unreachable" for answer in answers)
        assert not any("127.0.0.1" in answer.text or "bucket" in answer.text for answer in answers)
        assert tenant.committed() == 1.0
        assert tenant.account("record")["reserved"]["epsilon"] == 0.0
        assert tenant.http.get("/jobs").json()["jobs"] == []
        assert tenant.embed().status_code == 200, "an installed pack needs no store"
        assert not [path for path in (tmp_path / "data/jobs").iterdir() if path.is_dir()]

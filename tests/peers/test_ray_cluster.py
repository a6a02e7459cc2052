"""Jobs on a real Ray cluster of this machine, and whoever dies of it.

`tests/peers/install_ray` installs Ray; without it these tests are skipped.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray_cluster_kit
from corpus_kit import job, until
from gateway_kit import Tenant
from ray_cluster_kit import RayCluster
from ray_kit import RayGateway, folders_in_memory
from wait_kit import until as until_true

pytestmark = [
    pytest.mark.slow("peer"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(not ray_cluster_kit.is_installed(), reason="Ray is not installed: tests/peers/install_ray"),
]

QUESTION = "Does the zanzibar walrus sign?"
EPSILON = 0.5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RayGateway, RayCluster]]:
    folder = tmp_path_factory.mktemp("r")  # short: Ray has sockets below it
    ray = RayCluster(folder, folder / "blobs", cpus=2)
    try:
        gateway = RayGateway(folder, ray.url)
        try:
            yield gateway, ray
        finally:
            gateway.stop()
    finally:
        ray.close()


def created(tenant: Tenant, parts: int, delay_s: float = 0.0) -> str:
    body = {"name": "toy", "question": QUESTION, "epsilon": EPSILON, "answers": [True, False] * parts}
    answer = tenant.http.post("/jobs/sharded", json=body | {"parts": parts, "delay_s": delay_s})
    assert answer.status_code == 202, answer.text
    return answer.json()["job_id"]


def draws(gateway: RayGateway) -> list[str]:
    path = gateway.data_dir.parent / "draws"
    return path.read_text().splitlines() if path.exists() else []


def test_parts_are_drawn_by_actors_and_text_is_in_no_file_of_ray(cluster: tuple[RayGateway, RayCluster]) -> None:
    gateway, ray = cluster
    tenant = gateway.tenant()
    job_id = created(tenant, 4, delay_s=0.5)
    until_true(lambda: RayCluster.processes("ray::Shard"))
    done = until(tenant.http, job_id)
    assert done["status"] == "succeeded", done
    assert done["spent"]["epsilon"] == tenant.committed("record") == 4 * EPSILON
    drawn = [line.split() for line in draws(gateway)]
    assert sorted(done["result"]["marks"]) == sorted(int(mark) for _, mark in drawn)
    artifact = tenant.http.get(f"/jobs/{job_id}/artifact").content
    until_true(lambda: not folders_in_memory())
    written = [*ray.folder.rglob("*"), *(gateway.data_dir.parent / "blobs").rglob("*"), *Path("/dev/shm").iterdir()]
    contents = [path.read_bytes() for path in written if path.is_file()]
    for needle in (b"zanzibar", b'"answer"', artifact[-64:], str(gateway.data_dir).encode(), tenant.name.encode()):
        assert not any(needle in content for content in contents), needle


@pytest.mark.parametrize("who", ["actor", "node", "entry point", "gateway"])
def test_whoever_dies_each_part_is_charged_once(cluster: tuple[RayGateway, RayCluster], who: str) -> None:
    gateway, ray = cluster
    tenant = gateway.tenant()
    before = len(draws(gateway))
    node = ray.add_node() if who == "node" else None
    job_id = created(tenant, 8, delay_s=1.0)
    until_true(lambda: len(draws(gateway)) >= before + 3)
    if node is not None:
        ray.end(node)
    elif who == "gateway":
        gateway.process.kill()
        gateway.process.wait()
        gateway.start()
        tenant = gateway.reconnected(tenant)
    else:
        what = "ray::Shard" if who == "actor" else f"python -m gpu_workers.remote {job_id}"
        os.kill(until_true(lambda: RayCluster.processes(what))[0], signal.SIGKILL)
    done = until(tenant.http, job_id)
    assert done["status"] == "succeeded", done
    marks = {int(line.split()[1]): int(line.split()[0]) for line in draws(gateway)[before:]}
    assert Counter(marks[mark] for mark in done["result"]["marks"]) == Counter(range(8))
    assert done["spent"]["epsilon"] == tenant.committed("record") == 8 * EPSILON
    assert job(tenant.http, job_id)["attempts"] == (2 if who in ("entry point", "gateway") else 1)

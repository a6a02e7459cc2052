"""Bulk releases on a Ray cluster of this machine beside local processes, and the control plane with many nodes.

    tests/peers/install_ray
    unshare --net sh -c 'ip link set lo up && PYTHONPATH=.:tests:tests/kits \\
      .venv/bin/python -m benchmarks.ray --data ../shared/data [--documents 6000] [--nodes 8]'

The first table is the release of `benchmarks.bulk`: by one local process with all cores, by actors with one core each
on a cluster, and by the local process again. The second one shows the control plane alone: parts of a toy job that wait
for a fixed time and compute nothing, on one simulated node and on several.

The rate of a release is that of the parts after the first ones, as many as there are actors; that of waiting parts is
of their second half, when every actor has started. `whole job` is the time from the request to the end of the job.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gateway_kit import Gateway, Tenant, free_port
from ray_cluster_kit import RayCluster
from ray_kit import RayGateway, settings_of
from wait_kit import until

from benchmarks.bulk import SENTENCES, bulk_body, write_source
from benchmarks.kit import arguments, head, machine, reviews, row, running

ACTORS = 2
PARTS_OF_NODE, DELAY_S = 12, 2.0


def finished(tenant: Tenant, path: str, body: dict[str, Any], look: Callable[[], int]) -> tuple[list[float], float]:
    """Run a job. Returns when each part was there, by `look`, which counts them, and when the job ended, in seconds."""
    began, times = time.perf_counter(), list[float]()
    job_id = tenant.http.post(path, json=body).raise_for_status().json()["job_id"]
    while True:
        times += [time.perf_counter() - began] * (look() - len(times))
        job = tenant.http.get(f"/jobs/{job_id}").json()
        if job["status"] in ("succeeded", "failed"):
            break
        time.sleep(0.1)
    if job["status"] != "succeeded":
        raise RuntimeError(json.dumps(job))
    return times, time.perf_counter() - began


def rate(times: Sequence[float], first: int) -> float:
    """Parts a second, after so many of them."""
    return (len(times) - first) / (times[-1] - times[first - 1])


def release(gateway: Gateway, lake: Path, target: str, actors: int) -> tuple[float, float]:
    """Documents a second, and the seconds of the whole job."""
    times, seconds = finished(
        gateway.tenant(epsilon=4_000_000),
        "/jobs/release",
        bulk_body(target) | {"name": target},
        lambda: len([*(lake / target).glob("part-*")]),
    )
    return 1000 * rate(times, actors), seconds


@contextmanager
def on_cluster(settings: dict[str, str]) -> Iterator[Gateway]:
    with TemporaryDirectory(prefix="r") as name:  # short: Ray has sockets below it
        folder = Path(name)
        ray = RayCluster(folder, folder / "blobs", cpus=ACTORS + 1)  # and one for the entry point
        try:
            own = settings_of(ray.url, folder / "blobs", free_port()) | {"PRIVACY_GATEWAY_JOB_THREADS": "1"}
            with running(own | settings) as gateway:
                yield gateway
        finally:
            ray.close()


def bulk(data: Path, documents: int) -> None:
    sample = [sentences[:SENTENCES] for sentences in reviews(data, 20_000) if len(sentences) >= SENTENCES]
    with TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        lake.mkdir()
        write_source(lake / "in.parquet", [sample[number % len(sample)] for number in range(documents)])
        stores = Path(folder) / "stores.toml"
        stores.write_text(f'[stores.lake]\nurl = "file://{lake}"\nread = true\nwrite = true\n')
        settings = {"PRIVACY_GATEWAY_BULK_STORES_FILE": str(stores), "PRIVACY_GATEWAY_JOB_PRIORITY": "normal"}
        head(f"{documents} documents of {SENTENCES} sentences", "documents/s", "of local", "whole job, s")
        with running(settings) as gateway:
            first = release(gateway, lake, "local", 1)
        with on_cluster(settings) as gateway:
            found = release(gateway, lake, "ray", ACTORS)
        with running(settings) as gateway:
            again = release(gateway, lake, "again", 1)
        local = (first[0] + again[0]) / 2
        row("local, before; after", f"{first[0]:.1f}; {again[0]:.1f}", "1", f"{first[1]:.0f}; {again[1]:.0f}")
        row(f"Ray, {ACTORS} actors", f"{found[0]:.1f}", f"{found[0] / local:.3f}", f"{found[1]:.0f}")


def control_plane(nodes: int) -> None:
    head(f"parts of {DELAY_S:g} s that compute nothing", "parts/s", "of linear", "whole job, s", "of linear")
    with TemporaryDirectory(prefix="r") as name:
        folder = Path(name)
        ray = RayCluster(folder, folder / "blobs", cpus=1)  # for the entry point
        gateway = RayGateway(folder, ray.url)
        try:
            alone, added = None, 0
            for count in (1, nodes):
                while added < count:  # one after another: nodes that start together time out on few cores
                    ray.add_node()
                    added += 1
                    until(lambda: ray.alive() == added + 1, "the node has not joined")  # noqa: B023
                parts = PARTS_OF_NODE * count
                body = {"name": "toy", "question": "Is it?", "epsilon": 0.5, "answers": [True, False] * parts}
                draws = folder / "draws"
                before = len(draws.read_text().splitlines()) if draws.exists() else 0
                times, seconds = finished(
                    gateway.tenant(),
                    "/jobs/sharded",
                    body | {"parts": parts, "delay_s": DELAY_S},
                    lambda: len(draws.read_text().splitlines()) - before if draws.exists() else 0,  # noqa: B023
                )
                found = rate(times, parts // 2), seconds
                alone = alone or found
                linear = found[0] / (count * alone[0]), alone[1] / found[1]
                row(f"{count} nodes", f"{found[0]:.2f}", f"{linear[0]:.3f}", f"{found[1]:.0f}", f"{linear[1]:.3f}")
        finally:
            gateway.stop()
            ray.close()


def main() -> None:
    options = arguments(__doc__, needs_data=True, documents=6_000, nodes=8)
    print(f"{machine()}\n")
    bulk(options.data, options.documents)
    print()
    control_plane(options.nodes)


if __name__ == "__main__":
    main()

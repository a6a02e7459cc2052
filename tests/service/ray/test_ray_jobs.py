"""Jobs of a gateway whose entry points run elsewhere: real gateway, ledger, blob store and processes, a stand-in for
Ray's job interface."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from corpus_kit import job, until
from finetune_http_kit import RECORD, transitions
from gateway_kit import Tenant
from ray_kit import TOKEN, FakeRay, RayGateway, fake_cluster, folders_in_memory, settings_of
from synthesis_kit import shop_request, shop_rows
from wait_kit import until as until_true

from gpu_workers.remote import wire
from service.config.settings import Settings

QUESTION = "Does the zanzibar walrus sign?"

Cluster = tuple[RayGateway, FakeRay]


@pytest.fixture(scope="module")
def cluster(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with fake_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def calm(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster starts nothing by itself until the end of the test, which cancels its jobs."""
    _, ray = cluster
    ray.begin = lambda _: None
    yield cluster
    ray.begin = ray.start
    for http, job_id in _played:
        http.post(f"/jobs/{job_id}/cancel")
    _played.clear()


def created(tenant: Tenant, *, steps: int = 2, ends: str = "well") -> str:
    body = {"name": "toy", "question": QUESTION, "epsilon": 0.5, "answers": [True, False] * 20}
    answer = tenant.http.post("/jobs/soak", json=body | {"steps": steps, "ends": ends})
    assert answer.status_code == 202, answer.text
    return answer.json()["job_id"]


def submissions(ray: FakeRay, job_id: str) -> list[str]:
    return [each for each in ray.jobs if each.startswith(job_id)]


def draws(gateway: RayGateway) -> int:
    return len((gateway.data_dir.parent / "draws").read_text().splitlines())


class Process:
    """What an entry point sends, step by step."""

    def __init__(self, gateway: RayGateway, job_id: str, token: str) -> None:
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{gateway.ray_port}/internal/jobs/{job_id}/")
        self.http.headers["Authorization"] = f"Bearer {token}"

    def post(self, name: str, body: Any = None) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post(name, content=content, headers={"Content-Type": "application/json"})

    def open(self) -> httpx.Response:
        """Redeem the token. The order is unpickled as an entry point would."""
        answer = self.post("order")
        if answer.status_code == 200:
            import pickle

            self.order: wire.RemoteOrder = pickle.loads(answer.content)
            self.http.headers["Authorization"] = f"Bearer {self.order.secret}"
        return answer

    def send(self, *messages: Any, first: int = 0, seen: int = 0, waits: bool = False) -> httpx.Response:
        return self.post("messages", {"first": first, "messages": messages, "seen": seen, "waits": waits})


_played: list[tuple[httpx.Client, str]] = []


def opened(cluster: Cluster, tenant: Tenant) -> Process:
    """The first attempt at a new job, which the test plays."""
    gateway, ray = cluster
    job_id = created(tenant)
    _played.append((tenant.http, job_id))
    (submission,) = until_true(lambda: submissions(ray, job_id))
    process = Process(gateway, job_id, ray.token_of(submission))
    assert process.open().status_code == 200
    return process


def test_a_job_runs_on_the_cluster_and_nothing_of_it_stays_there(cluster: Cluster) -> None:
    gateway, ray = cluster
    tenant = gateway.tenant()
    done = until(tenant.http, created(tenant))
    assert done["status"] == "succeeded", done
    assert (done["result"]["rows"], done["metrics"]["step"]) == (40, 2)
    assert done["spent"]["epsilon"] == tenant.committed("record") == 0.5
    artifact = tenant.http.get(f"/jobs/{done['job_id']}/artifact").content
    assert artifact
    until_true(lambda: not folders_in_memory())
    submitted = json.dumps([ray.jobs[each] for each in submissions(ray, done["job_id"])])
    shown = [submitted.encode(), (ray.folder / "ray.log").read_bytes(), gateway.log_path.read_bytes()]
    shown += [path.read_bytes() for path in ray.store.rglob("*") if path.is_file()]
    for needle in (b"zanzibar", b"answer", artifact[:200], str(gateway.data_dir).encode()):
        assert not any(needle in content for content in shown), needle
    assert tenant.name not in submitted


def test_a_kind_of_the_project_runs_unchanged(cluster: Cluster) -> None:
    gateway, _ = cluster
    tenant = gateway.tenant(record=RECORD)
    body = shop_request(method="marginals") | {"rows": shop_rows(100)}
    done = until(tenant.http, tenant.http.post("/jobs/synthesis", json=body).json()["job_id"])
    assert done["status"] == "succeeded", done
    assert tenant.http.get(f"/jobs/{done['job_id']}/card").text.startswith("# ")
    assert transitions(tenant) == ["open", "reserve", "commit"]


def test_a_bulk_release_runs_and_is_charged_for_each_row(cluster: Cluster) -> None:
    gateway, _ = cluster
    tenant = gateway.tenant(epsilon=1e5)
    words = {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 3}}
    query = {"name": "bulk", "endpoint": "sanitize", "body": json.dumps(words)}
    rows = "".join(json.dumps({"text": QUESTION}) + "\n" for _ in range(1002))
    headers = {"Content-Type": "application/x-ndjson"}
    done = until(
        tenant.http,
        tenant.http.post("/jobs/release", params=query, content=rows, headers=headers).json()["job_id"],
    )
    assert done["status"] == "succeeded", done
    assert done["spent"]["epsilon"] == tenant.committed("vector") == 3 * 1002
    made = [json.loads(line) for line in tenant.http.get(f"/jobs/{done['job_id']}/artifact").text.splitlines()]
    assert [row["row"] for row in made] == list(range(1002))
    assert tenant.http.get(f"/jobs/{done['job_id']}/manifest").json()["written"] == 1002
    assert tenant.http.put("/sanitize/recognisers/codes", json={"entity": "CODE", "deny": ["walrus"]}).status_code < 300
    body = {"mask": {"recognisers": ["codes"]}, "fill": {"mode": "marker"}}
    refused = tenant.http.post(
        "/jobs/release", params=query | {"body": json.dumps(body)}, content=rows, headers=headers
    )
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "body"), refused.text


@pytest.mark.parametrize("who", ["entry point", "entry point that hangs", "gateway"])
def test_whoever_dies_the_job_shows_one_draw_for_one_charge(cluster: Cluster, who: str) -> None:
    gateway, ray = cluster
    tenant = gateway.tenant()
    before = draws(gateway)
    job_id = created(tenant, steps=20)
    shown = until_true(lambda: job(tenant.http, job_id).get("metrics"))
    first = submissions(ray, job_id)[0]
    if who == "gateway":
        gateway.process.kill()
        gateway.process.wait()
        gateway.start()
        tenant = gateway.reconnected(tenant)
    else:
        os.kill(ray.processes[first].pid, signal.SIGSTOP if "hangs" in who else signal.SIGKILL)
    done = until(tenant.http, job_id)
    assert done["status"] == "succeeded", done
    assert done["result"]["mark"] == shown["public_rows"]
    assert (draws(gateway) - before, tenant.committed("record")) == (1, 0.5)
    assert len(submissions(ray, job_id)) == 2
    if "hangs" in who:
        os.kill(ray.processes[first].pid, signal.SIGCONT)
    assert ray.processes[first].wait(30) != 0
    until_true(lambda: not folders_in_memory())


def test_a_sharded_job_goes_on_with_the_parts_that_it_has(cluster: Cluster) -> None:
    """Without Ray, the entry point draws every part itself."""
    gateway, ray = cluster
    tenant = gateway.tenant()
    before = draws(gateway)
    body = {"name": "toy", "question": QUESTION, "epsilon": 0.5, "answers": [True, False] * 20, "parts": 6}
    job_id = tenant.http.post("/jobs/sharded", json=body | {"delay_s": 1}).json()["job_id"]
    until_true(lambda: draws(gateway) >= before + 4)
    ray.processes[submissions(ray, job_id)[0]].kill()
    done = until(tenant.http, job_id)
    assert done["status"] == "succeeded", done
    assert done["spent"]["epsilon"] == tenant.committed("record") == 6 * 0.5
    drawn = [line.split() for line in (gateway.data_dir.parent / "draws").read_text().splitlines()[before:]]
    shown = [part for part, mark in drawn if int(mark) in done["result"]["marks"]]
    assert sorted(shown) == sorted(map(str, range(6)))
    assert len(drawn) <= 8, "at most what was not stored yet is drawn again"


def test_a_failure_has_its_problem_and_a_cancelled_job_ends_its_entry_point(cluster: Cluster) -> None:
    gateway, ray = cluster
    tenant = gateway.tenant()
    failed = until(tenant.http, created(tenant, ends="before"))
    assert (failed["status"], failed["problem"]["reason"]) == ("failed", "soak-before")
    assert tenant.committed("record") == 0

    job_id = created(tenant, steps=100)
    until_true(lambda: job(tenant.http, job_id).get("metrics"))
    tenant.http.post(f"/jobs/{job_id}/cancel")
    assert until(tenant.http, job_id)["status"] == "cancelled"
    assert ray.processes[submissions(ray, job_id)[0]].wait(30) != 0


def test_a_job_waits_for_a_cluster_that_takes_none(cluster: Cluster) -> None:
    gateway, ray = cluster
    tenant = gateway.tenant()
    ray.refuses = 2
    job_id = created(tenant)
    assert until(tenant.http, job_id)["status"] == "succeeded"
    assert (ray.refuses, len(submissions(ray, job_id))) == (0, 1)


def test_a_token_opens_one_session_and_its_second_use_ends_the_attempt(calm: Cluster) -> None:
    gateway, ray = calm
    tenant = gateway.tenant()
    process = opened(calm, tenant)
    job_id = process.order.order.folder.name
    assert process.send().status_code == 200
    thief = Process(gateway, job_id, ray.token_of(submissions(ray, job_id)[0]))
    assert thief.open().status_code == 401
    assert process.send().status_code == 401
    _, second = until_true(lambda: len(submissions(ray, job_id)) == 2 and submissions(ray, job_id))
    state = tenant.http.get(f"/jobs/{job_id}").json()
    for name, body in (("messages", {}), ("checkpoint", {}), ("tokens", None)):
        assert process.post(name, body).status_code == 401, "the former attempt changes nothing"
    ray.begin = ray.start
    assert (state["attempts"], state["status"]) == (2, "running")
    ray.processes[second] = ray.start(ray.jobs[second])
    assert until(tenant.http, job_id)["status"] == "succeeded"


def test_what_a_process_may_not_send_is_refused(calm: Cluster) -> None:
    gateway, _ = calm
    tenant = gateway.tenant()
    process = opened(calm, tenant)
    files = {name: list(each) for name, each in process.order.files.items()}
    progress = {"stage": "working", "fraction": 0.5, "metrics": None}
    problem = {"code": "job-failed", "detail": "x", "reason": "x", "line": None, "count": None, "faults": []}
    for body in (
        progress | {"stage": "the walrus signs"}, progress | {"fraction": 2}, progress | {"metrics": {"walrus": 1}},
        progress | {"metrics": {"step": "1"}}, progress | {"more": 1}, {}, {"walrus": 1}, {"part": 1, "problem": None},
        {"part": "1"}, {"part": -1, "rows": 1, "subjects": None}, {"problem": problem | {"detail": "walrus" * 200}},
        {"problem": None}, {"result": [1]}, ["working", 0.5], None,
    ):  # fmt: skip
        answer = process.send(body, first=100)
        assert (answer.status_code, "walrus" in answer.text) == (422, False), body
    for name, body in (
        ("messages", b"{"), ("messages", {"first": 0}), ("checkpoint", {"files": {}}),
        ("checkpoint", {"files": files | {"../spec": files["spec"]}}), ("checkpoint", {"files": files | {"x": ["y"]}}),
    ):  # fmt: skip
        assert process.post(name, body).status_code == 422, body
    assert process.post("checkpoint", b"[" * 50 + b"]" * 50).status_code == 400
    assert process.post("messages", b" " * (wire.BODY_BYTES_MAX + 1)).status_code == 413
    for other in (tenant.key, "x", TOKEN):
        assert (
            Process(gateway, process.order.order.folder.name, other).post("messages", b" " * 10**6).status_code == 401
        )
    assert Process(gateway, "0" * 32, process.order.secret).send().status_code == 401
    assert httpx.post(f"{gateway.url}/internal/jobs/{'0' * 32}/order").status_code == 404, "not on the port of tenants"
    assert job(tenant.http, process.order.order.folder.name)["status"] == "running"


def test_a_process_for_shards_may_charge_and_no_more(calm: Cluster) -> None:
    gateway, _ = calm
    tenant = gateway.tenant()
    process = opened(calm, tenant)
    job_id = process.order.order.folder.name
    shard = Process(gateway, job_id, process.post("tokens").text)
    assert shard.open().status_code == 200
    for name, body in (("tokens", None), ("checkpoint", {"files": {}})):
        assert shard.post(name, body).status_code == 401
    asked = {"part": None}
    answered = until_true(lambda: shard.send(asked, waits=True).json())
    assert answered == [asked], "the same form says that it is charged"
    assert shard.send(asked).json() == answered, "a repeated request is the same one"
    assert process.send().json() == [], "the answer is for who asked"
    assert shard.send(asked, {"result": {"rows": 1}}).status_code == 422
    assert tenant.committed("record") == 0.5


def test_a_result_before_the_charge_fails_the_job(calm: Cluster) -> None:
    gateway, _ = calm
    tenant = gateway.tenant()
    process = opened(calm, tenant)
    process.send({"result": {"rows": 1}})
    failed = until(tenant.http, process.order.order.folder.name)
    assert (failed["status"], failed["problem"]["reason"]) == ("failed", "not-charged")
    assert tenant.committed("record") == 0


def test_settings_that_are_not_complete_are_refused(tmp_path: Path) -> None:
    whole = {
        name.removeprefix("PRIVACY_GATEWAY_").lower(): value
        for name, value in settings_of("https://ray.example", tmp_path / "blobs", 9470).items()
    }
    for changes, said in (
        ({"ray_token": None}, "JOBS_ON=ray needs RAY_TOKEN"), ({"store_url": ""}, "needs STORE_URL"),
        ({"jobs_on": "gateway"}, "need JOBS_ON=ray"), ({"ray_url": "http://ray.example"}, "RAY_URL is without TLS"),
        ({"ray_gateway_url": "gateway:1"}, "RAY_GATEWAY_URL is https://"), ({"port": 9470}, "RAY_PORT that no other"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            Settings(**whole | changes)


def test_the_clock_of_an_attempt_runs_while_its_process_is_silent(calm: Cluster) -> None:
    """A process that has its order and then says nothing is taken for dead after a lease."""
    gateway, ray = calm
    tenant = gateway.tenant()
    process = opened(calm, tenant)
    job_id = process.order.order.folder.name
    began = time.monotonic()
    until_true(lambda: len(submissions(ray, job_id)) == 2)
    assert time.monotonic() - began >= 1

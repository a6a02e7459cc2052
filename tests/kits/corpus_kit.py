"""Public corpora made up for tests: documents of different sentences, each naming a number of its own."""

import contextlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson
from gateway_kit import Gateway, Tenant
from wait_kit import until as until_true

PLANTED = "The zanzibar walrus signs nothing on Tuesdays."
_SUBJECTS = ("The court", "A tenant", "Our engineer", "The nurse", "This council", "A farmer", "The pilot", "My editor")
_VERBS = ("rejected", "repaired", "described", "sold", "measured", "painted", "delayed", "praised", "questioned")
_THINGS = ("the contract", "a bridge", "the fever", "an old engine", "two maps", "the harvest", "a novel", "the budget")
_ENDS = ("in spring", "without a word", "for the third time", "before noon", "under protest", "with great care")


def documents(count: int, *, sentences: int = 9, seed: int = 1) -> list[list[str]]:
    """Documents of sentences that share hardly one with each other."""
    draw = random.Random(seed)
    return [
        [
            f"{draw.choice(_SUBJECTS)} {draw.choice(_VERBS)} {draw.choice(_THINGS)} {draw.choice(_ENDS)}."
            for _ in range(sentences)
        ]
        for _ in range(count)
    ]


def rows(count: int, **options: Any) -> list[dict[str, Any]]:
    return [{"text": " ".join(parts)} for parts in documents(count, **options)]


def embedding_rows(count: int, *, dimension: int = 16, sentences: int = 9, seed: int = 1) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {"embeddings": [[draw.gauss(0, 1) for _ in range(dimension)] for _ in range(sentences)]} for _ in range(count)
    ]


def json_lines(of: list[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in of)


FEW_STEPS = 10  # of a pack of which no test asks how good it is


def submit(http: httpx.Client, of: list[dict[str, Any]], *, name: str = "law", **headers: str) -> httpx.Response:
    return http.post("/jobs/domain", json={"name": name, "steps": FEW_STEPS, "documents": of}, headers=headers)


def upload(http: httpx.Client, content: Any, *, name: str = "law", **headers: str) -> httpx.Response:
    types = {"Content-Type": "application/x-ndjson"} | headers
    return http.post("/jobs/domain", params={"name": name, "steps": FEW_STEPS}, content=content, headers=types)


def job(http: httpx.Client, job_id: str) -> dict[str, Any]:
    answer = http.get(f"/jobs/{job_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def until(http: httpx.Client, job_id: str, *states: str, within_s: float = 300.0) -> dict[str, Any]:
    """The job, once it is in one of these states (any end state by default)."""
    wanted = states or ("succeeded", "failed", "cancelled")

    def reached() -> dict[str, Any] | None:
        found = job(http, job_id)
        return found if found["status"] in wanted else None

    return until_true(reached, f"not {wanted}", within_s=within_s)


def until_deleted(folder: Path) -> None:
    """Wait until the folder is deleted, which happens right after the end is reported."""
    until_true(lambda: not folder.exists())


def files_holding(gateway: Gateway, needles: Sequence[bytes]) -> list[str]:
    """Files of the data directory, and the log, that hold one of these."""
    found = []
    for path in [*gateway.data_dir.rglob("*"), gateway.log_path]:
        with contextlib.suppress(OSError):  # files come and go; sockets stay
            content = path.read_bytes()
            found += [str(path)] if any(needle in content for needle in needles) else []
    return found


def built(tenant: Tenant, of: list[dict[str, Any]], *, name: str = "law") -> dict[str, Any]:
    """The job of a domain that was built."""
    created = submit(tenant.http, of, name=name)
    assert created.status_code == 202, created.text
    found = until(tenant.http, created.json()["job_id"])
    assert found["status"] == "succeeded", found
    return found

"""Audits end to end of bulk releases: copies of a text are the rows of a job, and what the job made is attacked."""

import json
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
from audits.kit import Audit, Case, FloatArray, by_law
from audits.over_http import POOL, encoder, runs_of, tenant
from audits.vectors import vector_pack
from corpus_kit import until

from core.mechanisms.vectors.pricing import ADJACENCY_ALL
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.spec import PACK_DIMENSION, vector_spec
from gpu_workers.bulk.job import PART_ROWS
from service.bulk.job_kind import BulkKind


def released(text: str, runs: int, endpoint: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a job over `runs` copies of a text."""
    http = tenant().http
    query = {"name": "audit", "endpoint": endpoint, "body": json.dumps(body)}
    headers = {"Content-Type": "application/x-ndjson"}
    rows = (json.dumps({"text": text}) + "\n").encode() * runs
    created = http.post(f"/jobs/{BulkKind.name}", params=query, content=rows, headers=headers)
    if created.status_code != 202:
        raise RuntimeError(created.text[:300])
    job_id = created.json()["job_id"]
    job = until(http, job_id)
    if job["status"] != "succeeded" or job["result"]["written"] != runs:
        raise RuntimeError(json.dumps(job))
    return [json.loads(line) for line in http.get(f"/jobs/{job_id}/artifact").text.splitlines()]


def vector_cases(epsilon: float) -> Iterator[Case]:
    """`/embed/vector`, the trained codebook."""
    spec = vector_spec(mechanism="codebook", dimension=PACK_DIMENSION, epsilon=epsilon, projection="pca")
    mechanism = vector_mechanism(spec, None, vector_pack())
    known = np.asarray(mechanism.vectors, dtype="<f4")  # type: ignore[attr-defined]
    places = {row.tobytes(): index for index, row in enumerate(known)}
    codes = mechanism.codes(encoder().encode(list(POOL)))  # type: ignore[attr-defined]
    for one, other in permutations(range(len(POOL)), 2):
        laws = np.ones((2, len(known)))
        laws[0, codes[one]] = laws[1, codes[other]] = np.exp(epsilon)
        laws /= laws.sum(axis=1, keepdims=True)
        ratio, law = by_law(laws[0], laws[1])

        def draw(side: int, runs: int, pair: Any = (POOL[one], POOL[other]), ratio: FloatArray = ratio) -> FloatArray:
            found = released(pair[side], runs, "embed/vector", {"epsilon": epsilon})
            drawn = np.asarray([row["embedding"] for row in found], dtype="<f4")
            return np.asarray(ratio[[places[row.tobytes()] for row in drawn]])

        yield Case(f"'{POOL[one]}' and '{POOL[other]}'", epsilon, draw, law)


def audits() -> tuple[Audit, ...]:
    run = runs_of(lambda: vector_cases(3.0), runs=8 * PART_ROWS, pairs=3)
    return (Audit("http-bulk-vectors", "bulk releases", "/jobs/release, texts", "pure", ADJACENCY_ALL, run),)

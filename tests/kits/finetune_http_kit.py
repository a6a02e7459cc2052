"""Requests for a private fine-tuning, and the state of its job and its account."""

import json
from pathlib import Path
from typing import Any

import httpx
from corpus_kit import json_lines
from finetune_kit import LABELS, labelled
from gateway_kit import Gateway, Tenant
from tiny_models import checkpoint
from transformers import AutoModel
from wait_kit import until

NOTHING = {"epsilon": 0.0, "delta": 0.0}
RECORD = {"epsilon": 200.0, "delta": 4e-3, "basic_delta": 4e-3}


def terms(**fields: Any) -> dict[str, Any]:
    """What a request says besides its rows."""
    body = {"name": "towns", "labels": list(LABELS), "epsilon": 50.0, "delta": 1e-3, "rows": 40, "batch": 8, "steps": 6}
    body["method"] = "lora"
    found = body | fields
    return {name: value for name, value in found.items() if value is not None}


def tiny_encoder(gateway: Gateway) -> Path:
    """The checkpoint of the model `tiny` in the settings of `gateway`, written on the first call."""
    folder = Path(json.loads(gateway.environment["PRIVACY_GATEWAY_FINETUNE_MODELS"])["tiny"])
    return folder if any(folder.iterdir()) else checkpoint(folder, "bert", AutoModel)


def submit(tenant: Tenant, *, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
    given = {"private": labelled(40), "public": labelled(10)} | fields
    return tenant.http.post("/jobs/finetune", json=terms(**given), headers=headers or {})


def stream(tenant: Tenant, sent: list[dict[str, Any]], **fields: Any) -> httpx.Response:
    query = {name: value if isinstance(value, str) else json.dumps(value) for name, value in terms(**fields).items()}
    types = {"Content-Type": "application/x-ndjson"}
    return tenant.http.post("/jobs/finetune", params=query, content=json_lines(sent), headers=types)


def costs(block: dict[str, Any], spent: str = "spent") -> tuple[Any, Any]:
    return block[spent], block["reserved"]


def transitions(tenant: Tenant) -> list[str]:
    journal = tenant.http.get(f"/budget/{tenant.name}/record/journal").json()
    return [entry["transition"] for entry in journal["entries"]]


def events(tenant: Tenant, job_id: str) -> list[dict[str, Any]]:
    """Every state that the job's stream reports, until its end."""
    with tenant.http.stream("GET", f"/jobs/{job_id}/events", timeout=300) as answer:
        return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]


def until_reported(tenant: Tenant, job_id: str, step: int) -> dict[str, Any]:
    """The job, once it has reported that many steps."""

    def reported() -> dict[str, Any] | None:
        block = tenant.http.get(f"/jobs/{job_id}").json()
        if block.get("metrics", {}).get("step", 0) >= step:
            return block
        assert block["status"] in ("queued", "running"), block
        return None

    return until(reported)

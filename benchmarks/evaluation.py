"""An evaluation of real reviews on the embedded defaults: its time, its memory, and what its attacks find.

    python -m benchmarks.evaluation --data ../shared/data [--texts 1000] [--report FOLDER]

`POST /jobs/evaluation` with reviews of five sentences and their labels, four mechanisms at seven epsilons with five
repetitions, and two policies. The report and the findings are written to the folder.
"""

import gzip
import json
import time
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.bulk import job_process
from benchmarks.kit import arguments, head, machine, row, running
from core.text.segment import sentences

SENTENCES = 5
EPSILONS = [0.5, 1, 2, 3, 6, 10, 25]
METHODS = [
    {"name": "sentence_codes", "endpoint": "embed/sentdp", "body": {"mechanism": "sentence_codes"}},
    {"name": "codebook", "endpoint": "embed/vector", "body": {"mechanism": "codebook", "projection": "pca"}},
    {"name": "privunit", "endpoint": "embed/vector", "body": {"mechanism": "privunit"}},
    {"name": "laplace", "endpoint": "embed/vector", "body": {"mechanism": "laplace"}},
    {"name": "default", "endpoint": "sanitize"},
    {"name": "anonymise", "endpoint": "sanitize", "body": {"mask": {"profile": "anonymise"}}},
]


def labelled(data: Path, count: int) -> list[dict[str, str]]:
    """Reviews of at least five sentences, cut to five, as many of each label."""
    found: dict[str, list[dict[str, str]]] = {}
    with gzip.open(data / "imdb" / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            each = json.loads(line)
            parts = sentences(each["text"].replace("<br />", " "))
            if len(parts) >= SENTENCES:
                own = {"text": " ".join(parts[:SENTENCES]), "label": str(each["label"])}
                found.setdefault(own["label"], []).append(own)
    return [each for rows in found.values() for each in islice(rows, count // len(found))]


def main() -> None:
    options = arguments(__doc__, needs_data=True, texts=1_000, report="")
    texts = labelled(options.data, options.texts)
    print(f"{machine()}; {len(texts)} texts of {SENTENCES} sentences\n")
    with running() as gateway:
        tenant = gateway.tenant(epsilon=1)
        body = {"name": "reviews", "methods": METHODS, "epsilons": EPSILONS, "repetitions": 5, "texts": texts}
        started, stages, memory = time.perf_counter(), {}, 0
        job_id = tenant.http.post("/jobs/evaluation", json=body).raise_for_status().json()["job_id"]
        while True:
            job = tenant.http.get(f"/jobs/{job_id}").json()
            stages.setdefault(job.get("stage"), time.perf_counter() - started)
            if job["status"] in ("succeeded", "failed"):
                break
            if (pid := job_process(gateway)) is not None:
                memory = max(memory, peak(pid))
            time.sleep(0.5)
        seconds = time.perf_counter() - started
        if job["status"] != "succeeded":
            raise SystemExit(json.dumps(job["problem"]))
        found = tenant.http.get(f"/jobs/{job_id}/artifact").json()
        if options.report:
            folder = Path(options.report)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "report.html").write_text(tenant.http.get(f"/jobs/{job_id}/report").text, encoding="utf-8")
            (folder / "findings.json").write_text(json.dumps(found, indent=2), encoding="utf-8")
    head("seconds", "MiB at most", "stages begin at")
    row(f"{seconds:.0f}", memory, ", ".join(f"{name} {at:.0f}" for name, at in stages.items()))
    show(found)


def peak(pid: int) -> int:
    """The most memory that a process has had, in MiB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def show(found: dict[str, Any]) -> None:
    """Print the tables of docs/reference/benchmarks/evaluation.md."""
    print()
    head("method", "epsilon", "token F1 of the words", "of the nearest text", "of the topic", "words beyond the topic")
    for each in found["inversions"]:
        if each["epsilon"] in (None, 10):
            scores = (f"{each[key]['mean']:.3f}" for key in ("words", "neighbour", "topic"))
            row(each["name"], each["epsilon"] or "none", *scores, interval(each["words_beyond"]))
    print()
    head("method", "claim", "found, at least", "advantage, at least", "bound")
    for each in found["memberships"]:
        row(each["name"], *(f"{each[key]:.3f}" for key in ("claim", "found", "advantage_low", "bound")))
    print()
    head("method", "epsilon", "accuracy", "recall")
    for each in found["utilities"]:
        for own in each["rows"]:
            row(each["name"], own["epsilon"] or "none", interval(own["accuracy"]), interval(own["recall"]))
    print()
    head("policy", "words masked", "ordinary words lost", "accuracy before", "after", "unique")
    for each in found["maskings"]:
        shares = (f"{each[key]:.3f}" for key in ("masked", "ordinary_lost"))
        row(each["name"], *shares, *map(interval, (each["accuracy_before"], each["accuracy_after"])), each["unique"])


def interval(value: dict[str, float]) -> str:
    return f"{value['mean']:.3f} ({value['low']:.3f} to {value['high']:.3f})"


if __name__ == "__main__":
    main()

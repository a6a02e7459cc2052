"""What a tenant saves where repeats are answered from releases that were paid for (`REUSE_RETENTION_S`).

    python -m benchmarks.thrift --data ../shared/data

Two traces with repeats, each sent to two gateways of its own, without reuse and with it:

* `index`: a corpus of 20 Newsgroups is embedded again in every round, in batches; before each round some of its
  documents change by one sentence.
* `queries`: short texts of IMDB, one a request from several clients, drawn by Zipf's law.

The traces depend on `--seed` alone. The epsilon spent is what the ledger says. `by whole requests` is what the trace
would cost if only a request that is equal as a whole were reused; it is counted from the trace.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.text.segment import sentences

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/kits"))
from gateway_kit import LEAN, Gateway, Tenant

INDEX_EPSILON, QUERY_EPSILON = 10.0, 8.0
SETTINGS = {"without": {}, "with": {"PRIVACY_GATEWAY_REUSE_RETENTION_S": "86400"}}

Body = dict[str, Any]


@dataclass(frozen=True)
class Trace:
    """Requests in rounds: those of a round may be sent at the same time."""

    path: str
    rounds: Sequence[Sequence[Body]]
    clients: int

    @property
    def parts(self) -> int:
        return sum(len(contents(body)) for body in self.requests())

    def requests(self) -> Iterator[Body]:
        return (body for requests in self.rounds for body in requests)


def contents(body: Body) -> list[str]:
    """The documents or texts of a request, as what tells one from another."""
    return [json.dumps(part) for part in body.get("documents") or body["texts"]]


def lines(path: Path) -> Iterator[Body]:
    with gzip.open(path, "rt") as file:
        yield from map(json.loads, file)


def index_trace(data: Path, *, documents: int, rounds: int, changed: float, batch: int, seed: int) -> Trace:
    source = random.Random(seed)
    corpus: list[list[str]] = []
    for row in lines(data / "20news/train.jsonl.gz"):
        units = sentences(row["text"])
        if 4 <= len(units) <= 30:
            corpus.append(units)
        if len(corpus) == documents:
            break
    sent = []
    for number in range(rounds):
        if number:
            for index in source.sample(range(documents), round(changed * documents)):
                units = corpus[index].copy()
                units[source.randrange(len(units))] = source.choice(corpus[source.randrange(documents)])
                corpus[index] = units
        sent.append(
            [
                {
                    "documents": [{"sentences": units} for units in corpus[start : start + batch]],
                    "epsilon": INDEX_EPSILON,
                }
                for start in range(0, documents, batch)
            ]
        )
    return Trace("/embed/sentdp", sent, clients=2)


def query_trace(data: Path, *, texts: int, queries: int, exponent: float, clients: int, seed: int) -> Trace:
    source = random.Random(seed)
    known: dict[str, None] = {}
    for row in lines(data / "imdb/test.jsonl.gz"):
        known |= {unit: None for unit in sentences(row["text"].replace("<br />", " ")) if 20 <= len(unit) <= 120}
        if len(known) >= texts:
            break
    ranked = list(known)[:texts]
    weights = [1 / rank**exponent for rank in range(1, len(ranked) + 1)]
    drawn = source.choices(ranked, weights, k=queries)
    return Trace("/embed/vector", [[{"texts": [text], "epsilon": QUERY_EPSILON} for text in drawn]], clients=clients)


def send(tenant: Tenant, trace: Trace) -> list[float]:
    """Seconds of each round."""

    def post(body: Body) -> None:
        answer = tenant.http.post(trace.path, json=body)
        if answer.status_code != 200:
            raise RuntimeError(answer.text)

    seconds = []
    with ThreadPoolExecutor(trace.clients) as pool:
        for requests in trace.rounds:
            started = time.perf_counter()
            list(pool.map(post, requests))
            seconds.append(time.perf_counter() - started)
    return seconds


def whole_requests(trace: Trace, epsilon: float) -> float:
    """Epsilon of the trace if a request were reused as a whole or not at all."""
    return epsilon * sum(len(part) for part in {tuple(contents(body)) for body in trace.requests()})


def measure(name: str, trace: Trace, epsilon: float) -> None:
    distinct = len({part for body in trace.requests() for part in contents(body)})
    print(f"\n{name}: {trace.parts} documents or texts, {distinct} of them different; epsilon {epsilon:g} each\n")
    print("| reuse | epsilon spent | seconds | seconds of the first round |\n| --- | --- | --- | --- |")
    spent, taken = {}, {}
    for label, settings in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            gateway = Gateway(Path(folder) / "data", LEAN | settings)
            try:
                tenant = gateway.tenant(epsilon=1_000_000)
                seconds = send(tenant, trace)
                spent[label], taken[label] = tenant.committed(), sum(seconds)
            finally:
                gateway.stop()
        print(f"| {label} | {spent[label]:,.0f} | {taken[label]:.1f} | {seconds[0]:.1f} |", flush=True)
    print(f"| by whole requests | {whole_requests(trace, epsilon):,.0f} | | |")
    ratios = {what: sums["without"] / sums["with"] for what, sums in (("epsilon", spent), ("time", taken))}
    print(f"\nwithout / with: epsilon {ratios['epsilon']:.2f}, time {ratios['time']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--traces", default="index,queries")
    parser.add_argument("--documents", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--changed", type=float, default=0.05, help="share of documents that change before a round")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=4000)
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()

    if "index" in options.traces:
        trace = index_trace(
            options.data,
            documents=options.documents,
            rounds=options.rounds,
            changed=options.changed,
            batch=options.batch,
            seed=options.seed,
        )
        measure("index", trace, INDEX_EPSILON)
    if "queries" in options.traces:
        trace = query_trace(
            options.data,
            texts=options.texts,
            queries=options.queries,
            exponent=options.exponent,
            clients=options.clients,
            seed=options.seed,
        )
        measure("queries", trace, QUERY_EPSILON)


if __name__ == "__main__":
    main()

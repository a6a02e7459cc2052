"""Hugging Face datasets: batches, and interruptions after which nothing is paid twice."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict, load_dataset
from suite_kit import LETTER, REVIEWS, URL, new_tenant, shown, spent

from privacy_gateway_client import BudgetExhausted, Cache, Gateway, InvalidRequest, Release, new_cache_key
from privacy_gateway_client.integrations.datasets import embed, sanitize

MANY = [f"{REVIEWS[number % 3]} Number {number}." for number in range(32)]
TEXTS = MANY[:20]
# Embeds a dataset of JSON lines in batches of 4, and ends its process with the third request: before it is sent, when
# the answer has arrived and is not in the cache, or when it is in the cache.
INTERRUPTED = """
import os, sys
import httpx
from datasets import load_dataset
from privacy_gateway_client import Cache, Gateway, new_cache_key
from privacy_gateway_client.integrations.datasets import embed

url, key, place = sys.argv[1:4]
count = 0

class Ending(httpx.HTTPTransport):
    def handle_request(self, request):
        global count
        charging = request.url.path == "/embed/sentdp"
        count += charging
        if charging and count == 3 and place == "before":
            os._exit(7)
        answer = super().handle_request(request)
        answer.read()
        if charging and count == 3 and place == "arrived":
            os._exit(7)
        return answer

def reported(release):
    if count == 3 and place == "cached":
        os._exit(7)

cache = Cache("answers.db", new_cache_key("answers.key"))
gateway = Gateway(url, key, cache=cache, transport=Ending())
dataset = load_dataset("json", data_files="reviews.jsonl", split="train", cache_dir="datasets")
made = embed(dataset, "text", gateway, epsilon=2, batch_size=4, on_release=reported)
print(made.num_rows, len(made[0]["embedding"]))
"""


def rows(texts: list[str]) -> Dataset:
    return Dataset.from_dict({"text": texts, "row": list(range(len(texts)))})


def test_a_dataset_gets_vectors_and_the_facts_of_their_releases(caching_gateway: Gateway) -> None:
    releases: list[Release] = []
    dataset = rows([TEXTS[0], None, *TEXTS[1:], TEXTS[0]])
    made = embed(dataset, "text", caching_gateway, epsilon=2, batch_size=4, on_release=releases.append)
    assert made.column_names == ["text", "row", "embedding", "embedding_privacy"]
    assert made["row"][:] == list(range(len(dataset)))
    assert [len(vector or []) for vector in made["embedding"][:3]] == [384, 0, 384]
    assert made[0]["embedding_privacy"]["privacy_epsilon"] == 2
    assert made[0]["embedding"] == made[-1]["embedding"]  # equal texts are bought once
    assert spent(caching_gateway) == 2 * len(TEXTS)
    assert sum(len(one.inputs) for one in releases if not one.cached) == len(TEXTS)


def test_an_interrupted_call_continues_without_a_second_charge(tmp_path: Path) -> None:
    key = new_tenant()
    rows(MANY).to_json(tmp_path / "reviews.jsonl")

    def run(place: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", INTERRUPTED, URL, key, place]
        return subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=300)

    with Gateway(URL, key) as client:
        # batches that were bought: 1 and 2; 3 to 5, of which the last is lost; that one again for nothing, 6 and 7
        for place, bought in (("before", 8), ("arrived", 20), ("cached", 28)):
            assert run(place).returncode == 7
            assert spent(client) == 2 * bought
        for _ in range(2):
            done = run("nowhere")
            assert done.returncode == 0, done.stderr
            assert done.stdout.split()[-2:] == ["32", "384"]
            assert spent(client) == 2 * len(MANY)


def test_an_exhausted_budget_ends_the_call_and_keeps_what_was_paid(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "answers.db", new_cache_key(tmp_path / "answers.key"))
    with Gateway(URL, new_tenant(20), cache=cache) as gateway:
        with pytest.raises(BudgetExhausted):
            embed(rows(TEXTS), "text", gateway, epsilon=2, batch_size=4)
        assert spent(gateway) == 16
        made = embed(rows(TEXTS[:8]), "text", gateway, epsilon=2, batch_size=8)
        assert made.num_rows == 8
        assert spent(gateway) == 16
    cache.close()


def test_a_finished_call_is_read_from_the_disk(caching_gateway: Gateway, tmp_path: Path) -> None:
    rows(TEXTS).to_json(tmp_path / "reviews.jsonl")
    files = {"data_files": str(tmp_path / "reviews.jsonl"), "cache_dir": str(tmp_path / "datasets")}
    dataset = load_dataset("json", split="train", **files)
    first = embed(dataset, "text", caching_gateway, epsilon=2)
    again = embed(dataset, "text", caching_gateway, epsilon=2)
    assert again[0] == first[0]
    assert again.cache_files == first.cache_files != []
    assert embed(dataset, "text", caching_gateway, epsilon=3)[0] != first[0]
    assert spent(caching_gateway) == 5 * len(TEXTS)


def test_texts_are_sanitised_in_place_or_beside(gateway: Gateway) -> None:
    dataset = rows([LETTER, None, " "])
    made = sanitize(dataset, "text", gateway, fill={"mode": "surrogate"})
    assert not shown(made[0]["text"])
    assert made["text"][1:] == [None, " "]
    beside = sanitize(dataset, "text", gateway, fill={"mode": "class_marker"}, into="clean")
    assert beside[0]["text"] == LETTER
    assert not shown(beside[0]["clean"])
    assert beside[0]["clean_privacy"]["privacy_guarantee"] == "none"
    assert spent(gateway) == 0


def test_a_fill_with_a_price_is_bought_once(caching_gateway: Gateway) -> None:
    priced: Any = {"mask": {"techniques": ["all"]}, "fill": {"mode": "metric_dp", "epsilon": 2}}
    first = sanitize(rows(TEXTS[:3]), "text", caching_gateway, batch_size=2, **priced)
    cost = spent(caching_gateway, "token")
    again = sanitize(rows(TEXTS[:3]), "text", caching_gateway, batch_size=3, **priced)
    assert again["text"][:] == first["text"][:] != TEXTS[:3]
    assert spent(caching_gateway, "token") == cost > 0


def test_a_mistake_in_a_later_batch_is_found_before_the_first_is_paid(caching_gateway: Gateway) -> None:
    for value, kind, message in [(" ", InvalidRequest, r"texts\.9: "), ("row", ValueError, "dataset has text")]:
        dataset, column = rows([*TEXTS[:9], value]), "text" if value == " " else "txt"
        with pytest.raises(kind, match=message):
            embed(dataset, column, caching_gateway, epsilon=2, batch_size=4)
    with pytest.raises(TypeError, match="one split"):
        embed(DatasetDict({"train": rows(TEXTS)}), "text", caching_gateway, epsilon=2)
    with pytest.raises(TypeError, match="one split"):
        embed("hello", "text", caching_gateway, epsilon=2)
    assert spent(caching_gateway) == 0


def test_a_client_without_a_cache_buys_nothing(gateway: Gateway) -> None:
    with pytest.raises(ValueError, match="cache"):
        embed(rows(TEXTS), "text", gateway, epsilon=2)
    with pytest.raises(ValueError, match="cache"):
        sanitize(rows(TEXTS), "text", gateway, fill={"mode": "metric_dp", "epsilon": 2})
    assert spent(gateway) == 0


def test_the_example_of_the_guide_runs(run_example: Any) -> None:
    names = run_example("Hugging Face datasets")
    assert len(names["private"][0]["embedding"]) == 384

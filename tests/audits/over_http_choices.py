"""Audits end to end of what a request may choose: the pack by votes, windows of words, fills for language models."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import torch
from audits.kit import Audit, Case, learned
from audits.over_http import (
    DOCUMENTS,
    EPSILON,
    encoder,
    fill_cases,
    model,
    one_response,
    posted,
    runs_of,
    shipped_pack,
    tenant,
)

from core.amounts import NANO
from core.mechanisms.sentences.registry import protection, routing_share
from core.mechanisms.sentences.sentence_codes import SentenceCodes
from core.mechanisms.words import pricing
from core.text.segment import sentences

WORDS = ("water", "Maria", "1987", "gold", "engine", "prayer", "goal", "walrus")  # of windows
_PACKS = ("general", "forums", "reviews")


def window_cases(epsilon: float) -> Iterator[Case]:
    """`segmentation` by words: texts of one word, which is a window. One response is read off a release."""
    mechanism = SentenceCodes(shipped_pack())
    release, own_nano = mechanism.table_for(round(epsilon * NANO), sentences=1)
    for pair in permutations(WORDS, 2):
        codes = [mechanism.codes([torch.from_numpy(encoder().encode([word]))], release.table.size) for word in pair]
        if codes[0] != codes[1]:
            yield one_response(release, own_nano / NANO, pair, codes, epsilon, segmentation="words", window_words=1)


def auto_cases(epsilon: float) -> Iterator[Case]:
    """`domain` auto: as many votes for two packs, but for one, and the name of the pack that was chosen.

    The claim is the share of epsilon that the choice has."""
    texts = [" ".join(["No."] * (4 + side) + ["Yes."] * (4 - side)) for side in (1, 0)]
    if {len(sentences(text)) for text in texts} != {8}:
        raise ValueError("the gateway cuts these texts otherwise")

    def draw(side: int, runs: int) -> np.ndarray:
        body = {"epsilon": epsilon, "domain": "auto", "encoding_format": "base64"}
        chosen: list[int] = []
        for start in range(0, runs, DOCUMENTS):
            documents = [{"text": texts[side]}] * min(DOCUMENTS, runs - start)
            chosen += [_PACKS.index(row["domain"]) for row in posted("/embed/sentdp", {"documents": documents, **body})]
        return np.asarray(chosen)

    share = routing_share(round(epsilon * NANO)) / NANO
    yield learned(draw, len(_PACKS), share, "four or five of eight sentences 'No.', the others 'Yes.'", pilot=512)


def sent(text: str, runs: int, policy: str, _: float) -> list[str]:
    """What the language model gets of `runs` copies of a text, each in a message of its own.
    The policy of that name has the epsilon."""
    found: list[str] = []
    for start in range(0, runs, DOCUMENTS):
        messages = [{"role": "user", "content": text}] * min(DOCUMENTS, runs - start)
        model().bodies.clear()
        body = {"model": "stub-gpt", "messages": messages}
        answer = tenant().http.post("/v1/chat/completions", json=body, headers={"Privacy-Policy": policy})
        if answer.status_code != 200:
            raise RuntimeError(f"{answer.status_code} {answer.text[:300]}")
        found += [message["content"] for message in model().bodies[-1]["messages"]]
    return found


def audits() -> tuple[Audit, ...]:
    rows = [
        (
            "http-auto",
            "/embed/sentdp, auto, the pack that is chosen",
            protection("sentence_codes").adjacency,
            runs_of(lambda: auto_cases(4.0), runs=4_096, pairs=1, pilot=512),
        ),
        (
            "http-windows",
            "/embed/sentdp, sentence_codes, windows of words",
            protection("sentence_codes", segmentation="words").adjacency,
            runs_of(lambda: window_cases(6.0), pairs=60),
        ),
    ]
    for scope, adjacency in (("slot", pricing.PLACE.split(",")[0]), ("document", pricing.ANY)):
        cases = lambda scope=scope: fill_cases(scope, EPSILON, sent)  # noqa: E731
        run = runs_of(cases, runs=4_096, pairs=4, pilot=512)
        rows.append((f"http-model-{scope}", f"/v1/chat/completions, dp, {scope}", adjacency, run))
    return tuple(
        Audit(name, "over HTTP", mechanism, "pure", adjacency, run) for name, mechanism, adjacency, run in rows
    )

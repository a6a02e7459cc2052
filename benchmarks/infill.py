"""The fills of a language model: how fast, what they put back, and how much of a text `dp` keeps.

    python -m benchmarks.infill --data DATA [--part speed|leakage|dp|window] [--documents 1000]

DATA holds `imdb/test.jsonl.gz` (reviews) and `pii/presidio_synth_v2.jsonl.gz` (texts with names and numbers).

Times are of the processor, by one thread (OMP_NUM_THREADS=1): on a machine that others use, what it would take alone.

* speed: `top1` of all documents together, against the same net as transformers runs it, document by document and mask
  by mask over the whole document; and against our own model called so. Alternating rounds, medians.
* leakage: of the masked words of 4 characters or more, those that come out at their place, and how many of those are
  among the 20,000 most frequent words of English.
* dp: the share of words that stay themselves, beside `metric_dp` at the same worst case.
* window: how often the hidden word is the model's first, or among its first five, by the pieces read around it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from core.amounts import NANO
from core.mechanisms.words.normal_form import normal
from core.mechanisms.words.pricing import worst_case_nano
from core.mechanisms.words.replacement import ExponentialWords, shipped
from core.text.fill_top_k import top_1
from core.text.mask_words import AllowLists, ranked
from core.text.model_fills import CONTEXT_CHARS, Blank, fill_left_to_right
from core.text.policy import MaskPolicy, Sanitised, SanitizeTask
from core.text.sanitize import Inspected, inspect, inspect_words, replace_words
from core.text.segment import tokenize
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.models import infill
from gpu_workers.models.embedded import InfillNet, embedded_vocabulary, load_embedded
from gpu_workers.models.infill import MaskedInfill, MaskedLM, embedded_infill

LISTS = AllowLists()
COMMON = 20_000
LONG = 4
TOGETHER = 64
ALONE = 4  # documents of the peers, which take long
SLOTS_MAX = 4_096
FILLS = (*((name, None) for name in ("marker", "class_marker", "surrogate", "top1", "topk")), ("dp", 10))


def _texts(path: Path, field: str, count: int, chars: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [
            str(json.loads(line)[field]).replace("<br />", " ") for line, _ in zip(lines, range(count), strict=False)
        ]
    return [row[:chars].rsplit(" ", 1)[0] for row in rows]


def _peer(dtype: torch.dtype) -> Callable[[Inspected], None]:
    """One document, mask by mask: the whole text, cut to the model's positions around the mask, in one row."""
    _, net = load_embedded("infill", lambda bert, _: InfillNet(bert), None, device=torch.device("cpu"), dtype=dtype)
    vocabulary = embedded_vocabulary()
    lm = MaskedLM(vocabulary=vocabulary, forward=net, device=torch.device("cpu"), name="peer")
    candidates = torch.tensor(sorted(lm.words))

    @torch.inference_mode()
    def run(found: Inspected) -> None:
        ends = [0, *(mask.end for mask in found.masks)]
        starts = [*(mask.start for mask in found.masks), len(found.text)]
        parts = [ids.tolist() for ids in lm.ids([found.text[a:b] for a, b in zip(ends, starts, strict=True)])]
        words = [lm.mask] * len(found.masks)
        for place in range(len(words)):
            row = parts[0] + [piece for word, part in zip(words, parts[1:], strict=True) for piece in (word, *part)]
            at = len(parts[0]) + sum(1 + len(part) for part in parts[1 : place + 1])
            first = max(0, min(at - 255, len(row) - 510))
            ids = torch.tensor([[vocabulary.start, *row[first : first + 510], vocabulary.end]])
            logits = net(ids, torch.ones_like(ids), torch.tensor([1 + at - first]))
            words[place] = int(candidates[logits[0, candidates].argmax()])

    return run


def speed(data: Path, documents: int, rounds: int) -> None:
    texts = _texts(data / "imdb/test.jsonl.gz", "text", documents, 10_000)
    found = [inspect(text, MaskPolicy(techniques=("allow_list",)), LISTS) for text in texts]
    alone = found[:ALONE]
    model = MaskedInfill(embedded_infill())
    plans: dict[str, Callable[[], object]] = {
        "together": lambda: fill_left_to_right(found, [top_1()] * len(found), model),
        "one by one": lambda: [fill_left_to_right([each], [top_1()], model) for each in alone],
    }
    for dtype in (torch.float32, torch.bfloat16):
        peer = _peer(dtype)
        name = f"transformers {str(dtype).removeprefix('torch.')}, one by one"
        plans[name] = lambda peer=peer: [peer(each) for each in alone]  # type: ignore[misc]
    places = {name: sum(len(each.masks) for each in (found if name == "together" else alone)) for name in plans}
    took: dict[str, list[float]] = {name: [] for name in plans}
    fill_left_to_right(found[:2], [top_1()] * 2, model)
    for _ in range(rounds):
        for name, run in plans.items():
            begun = time.process_time()
            run()
            took[name].append((time.process_time() - begun) / places[name])
    characters = sum(map(len, texts)) / len(texts)
    print(f"{len(found)} reviews of {characters:.0f} characters, {places['together']} places, {rounds} rounds")
    ours = statistics.median(took["together"])
    for name, seconds in took.items():
        median = statistics.median(seconds)
        print(f"{name:<36}{1 / median:>8.0f} places/s{median * 1e3:>8.2f} ms a place{median / ours:>7.2f} x")


def _sanitised(sanitiser: Sanitiser, tasks: Sequence[SanitizeTask]) -> Iterator[Sanitised]:
    for start in range(0, len(tasks), TOGETHER):
        for answer in sanitiser.run(tasks[start : start + TOGETHER]):
            if not isinstance(answer, Sanitised):
                raise answer
            yield answer


def _returned(before: Inspected, after: Sanitised) -> tuple[int, list[str]]:
    """How many words of at least `LONG` characters were masked, and those that stand in their region's filling."""
    masked, back = 0, []
    for mask, span in zip(before.masks, after.spans, strict=True):
        region = before.text[mask.start : mask.end]
        filling = {
            normal(after.text[a + span.start : b + span.start]) for a, b in tokenize(after.text[span.start : span.end])
        }
        words = [normal(region[a:b]) for a, b in tokenize(region) if b - a >= LONG]
        masked += len(words)
        back += [word for word in words if word in filling]
    return masked, back


def leakage(data: Path, documents: int, chars: int) -> None:
    sanitiser = Sanitiser(infill="bundled", fill_slots_max=SLOTS_MAX)
    ranks = ranked()[1]
    reviews = _texts(data / "imdb/test.jsonl.gz", "text", documents, chars)
    synthetic = _texts(data / "pii/presidio_synth_v2.jsonl.gz", "full_text", documents, chars)
    print(f"{'technique':<12}{'fill':<14}{'words masked':>13}{'back':>7}{'share':>9}{'common':>8}  not common")
    for technique, texts in (("entity", synthetic), ("vocabulary", reviews), ("allow_list", reviews)):
        policy = MaskPolicy(techniques=(technique,))
        before = [inspect(text, policy, LISTS) for text in texts]
        for fill, epsilon in FILLS:
            nano = None if epsilon is None else epsilon * NANO
            tasks = [SanitizeTask(text, policy, fill, nano) for text in texts]
            masked, back = 0, list[str]()
            for own, answer in zip(before, _sanitised(sanitiser, tasks), strict=True):
                more, returned = _returned(own, answer)
                masked, back = masked + more, back + returned
            rare = [word for word in back if ranks.get(word, COMMON) >= COMMON]
            name = fill if epsilon is None else f"{fill}, {epsilon}"
            common = f"{1 - len(rare) / len(back):.3f}" if back else "-"
            share = len(back) / max(masked, 1)
            print(
                f"{technique:<12}{name:<14}{masked:>13}{len(back):>7}{share:>9.4f}{common:>8}  {len(rare)}", flush=True
            )


def dp(data: Path, documents: int, chars: int) -> None:
    sanitiser = Sanitiser(infill="bundled", fill_slots_max=SLOTS_MAX)
    texts = _texts(data / "imdb/test.jsonl.gz", "text", documents, chars)
    policy = MaskPolicy(techniques=("all",))
    found = [inspect_words(text, policy, LISTS) for text in texts]
    words = [[normal(word) for word in each.text.split()] for each in found]
    exponential = ExponentialWords(shipped())

    def kept(filled: Sequence[Sanitised]) -> float:
        pairs = [
            pair for old, new in zip(words, filled, strict=True) for pair in zip(old, new.text.split(), strict=True)
        ]
        return sum(old == normal(new) for old, new in pairs) / len(pairs)

    print(f"{len(texts)} texts of {sum(map(len, words)) / len(words):.0f} words; technique all, scope slot")
    print(f"{'epsilon of a word':<20}{'dp':>8}{'metric_dp at that worst case':>32}")
    for epsilon in (5, 10, 20, 50):
        nano = epsilon * NANO
        low, high = 1, nano
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if worst_case_nano(middle, mechanism="exponential") <= nano else (low, middle)
        ours = kept(list(_sanitised(sanitiser, [SanitizeTask(text, policy, "dp", nano) for text in texts])))
        metric = kept(replace_words(found, [low] * len(found), exponential))
        print(f"{epsilon:<20}{ours:>8.3f}{metric:>20.3f} (epsilon {low / NANO:.2f})", flush=True)


def window(data: Path, documents: int) -> None:
    texts = _texts(data / "imdb/test.jsonl.gz", "text", documents, 3_000)
    lm = embedded_infill()
    blanks, hidden = [], []
    known = {word.lower() for word in lm.words.values()}
    for text in texts:
        places = [token for token in tokenize(text) if text[token.start : token.end].lower() in known]
        for start, end in [places[len(places) * part // 4] for part in (1, 2, 3)] if len(places) > 8 else []:
            blanks.append(Blank(text[max(0, start - CONTEXT_CHARS) : start], (text[end : end + CONTEXT_CHARS],)))
            hidden.append(text[start:end].lower())
    print(f"{len(blanks)} hidden words of {len(texts)} reviews")
    for pieces in (32, 48, 64, 126):
        infill.WINDOW_PIECES = pieces
        model = MaskedInfill(lm)
        begun = time.process_time()
        best = [
            row for at in range(0, len(blanks), TOGETHER) for row in model.ranked(blanks[at : at + TOGETHER], count=5)
        ]
        took = (time.process_time() - begun) / len(blanks)
        first = np.mean([row[0] == word for row, word in zip(best, hidden, strict=True)])
        five = np.mean([word in row for row, word in zip(best, hidden, strict=True)])
        print(f"{pieces:>4} pieces: first {first:.3f}, among five {five:.3f}, {took * 1e3:.2f} ms a word")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--part", choices=("speed", "leakage", "dp", "window"), action="append")
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--chars", type=int, default=300, help="of each document, for leakage and dp")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.disable()
    parts = options.part or ["window", "speed", "dp", "leakage"]
    print(f"{torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    if "window" in parts:
        window(options.data, min(options.documents, 400))
    if "speed" in parts:
        speed(options.data, min(options.documents, 32), options.rounds)
    if "dp" in parts:
        dp(options.data, min(options.documents, 50), options.chars)
    if "leakage" in parts:
        leakage(options.data, options.documents, options.chars)


if __name__ == "__main__":
    main()

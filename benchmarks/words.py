"""What fills that depend on epsilon, and fills of a language model, leave of texts and give back.

    python -m benchmarks.words --data DATA [--parts accuracy kept returned] [--tasks CR MR TREC-6]

* accuracy: of a logistic regression on the bundled encoder's vectors of short texts (customer reviews, movie reviews,
  questions), every word of which was replaced under metric DP (technique `all`). *Clear*: trained on public texts as
  they are; *sanitised*: trained on texts replaced at the same epsilon. *Unchanged*: words that came out as themselves.
* kept: the share of words that the fill `dp` leaves as they are, beside `metric_dp` at the same worst case.
* returned: of the masked words of 4 characters or more, those that come out at their place, by technique and fill, and
  how many of those are among the 20,000 most frequent words of English.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.kit import arguments, head, row
from core.amounts import NANO
from core.mechanisms.words.normal_form import normal
from core.mechanisms.words.pricing import EXPONENTIAL, LAPLACE, worst_case_nano
from core.mechanisms.words.replacement import NOISE_DIMENSION, ExponentialWords, LaplaceWords, WordMechanism, shipped
from core.text.mask_words import AllowLists, ranked
from core.text.policy import MaskPolicy, Sanitised, SanitizeTask
from core.text.sanitize import Inspected, inspect, inspect_words, replace_words
from core.text.segment import tokenize
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.models.encoder import Encoder
from training.public_text import json_lines

EPSILONS, DP_EPSILONS = (2, 5, 10, 15, 20, 50), (5, 10, 20, 50)
TASKS = {"CR": ("cr_all", "cr_all"), "MR": ("mr_all", "mr_all"), "TREC-6": ("trec6_train", "trec6_test")}
MECHANISMS: dict[str, WordMechanism] = {
    EXPONENTIAL: ExponentialWords(shipped()),
    LAPLACE: LaplaceWords(shipped().leading(NOISE_DIMENSION)),
}
LISTS, ALL = AllowLists(), MaskPolicy(techniques=("all",))
FILLS = (*((name, None) for name in ("marker", "class_marker", "surrogate", "top1", "topk")), ("dp", 10))
COMMON, LONG, TOGETHER, SLOTS_MAX = 20_000, 4, 64, 4_096


def labelled(data: Path, name: str) -> tuple[list[str], np.ndarray]:
    """Texts in a fixed random order, and their labels."""
    rows = list(json_lines(data / "senteval" / f"{name}.jsonl.gz"))
    order = np.random.default_rng(0).permutation(len(rows))
    return [rows[i]["text"] for i in order], np.array([rows[i]["label"] for i in order])


def replaced(texts: list[str], mechanism: str, epsilon_nano: int) -> tuple[list[str], float]:
    """The texts with every word replaced, and the share of words that came out as themselves."""
    found = [inspect_words(text, ALL, LISTS) for text in texts]
    results = replace_words(found, [epsilon_nano] * len(texts), MECHANISMS[mechanism])
    return [result.text for result in results], unchanged(found, results)


def unchanged(before: Sequence[Inspected], after: Sequence[Sanitised]) -> float:
    """The share of words that came out as themselves, where every word is replaced by one."""
    pairs = [
        normal(old) == normal(new)
        for each, result in zip(before, after, strict=True)
        for old, new in zip(each.text.split(), result.text.split(), strict=True)
    ]
    return sum(pairs) / len(pairs)


def accuracy(data: Path, tasks: Sequence[str], train: int, test: int) -> None:
    encoder = Encoder()
    head("task", "mechanism", "epsilon per unit", "worst case", "unchanged", "trained clear", "trained sanitised")
    for task in tasks:
        source, other = TASKS[task]
        texts, labels = labelled(data, source)
        if other == source:
            tested, truth = texts[-test:], labels[-test:]
        else:
            tested, truth = (part[:test] for part in labelled(data, other))
        texts, labels = texts[:train], labels[:train]

        def fitted(texts: list[str], labels: np.ndarray = labels):
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.01))
            return model.fit(encoder.encode(texts), labels)

        clear = fitted(texts)
        row(task, "not private", "–", "–", "1.000", f"{clear.score(encoder.encode(tested), truth):.3f}", "–")
        for mechanism, epsilon in product(MECHANISMS, EPSILONS):
            released, kept = replaced(tested, mechanism, epsilon * NANO)
            rows, own = encoder.encode(released), fitted(replaced(texts, mechanism, epsilon * NANO)[0])
            worst = worst_case_nano(epsilon * NANO, mechanism=mechanism) / NANO
            scores = (f"{model.score(rows, truth):.3f}" for model in (clear, own))
            row(task, mechanism, epsilon, f"{worst:.1f}", f"{kept:.3f}", *scores)
        most = f"{max(np.unique(truth, return_counts=True)[1]) / len(truth):.3f}"
        row(task, "most frequent label", "–", "0", "–", most, most)


def read(path: Path, field: str, count: int, chars: int) -> list[str]:
    rows = [str(each[field]).replace("<br />", " ") for each in islice(json_lines(path), count)]
    return [text[:chars].rsplit(" ", 1)[0] for text in rows]


def sanitised(sanitiser: Sanitiser, tasks: Sequence[SanitizeTask]) -> Iterator[Sanitised]:
    for start in range(0, len(tasks), TOGETHER):
        for answer in sanitiser.run(tasks[start : start + TOGETHER]):
            if not isinstance(answer, Sanitised):
                raise answer
            yield answer


def kept(texts: list[str], sanitiser: Sanitiser) -> None:
    found = [inspect_words(text, ALL, LISTS) for text in texts]
    print()
    head("epsilon of a word", "dp", "metric_dp at that worst case")
    for nano in (epsilon * NANO for epsilon in DP_EPSILONS):
        low, high = 1, nano
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if worst_case_nano(middle, mechanism=EXPONENTIAL) <= nano else (low, middle)
        ours = unchanged(found, list(sanitised(sanitiser, [SanitizeTask(text, ALL, "dp", nano) for text in texts])))
        row(nano // NANO, f"{ours:.3f}", f"{replaced(texts, EXPONENTIAL, low)[1]:.3f} (at {low / NANO:.2f})")


def came_back(before: Inspected, after: Sanitised) -> tuple[int, list[str]]:
    """How many words of at least `LONG` characters were masked, and those that stand in their region's filling."""
    masked, back = 0, []
    for mask, span in zip(before.masks, after.spans, strict=True):
        region, filling = before.text[mask.start : mask.end], after.text[span.start : span.end]
        filled = {normal(filling[a:b]) for a, b in tokenize(filling)}
        words = [normal(region[a:b]) for a, b in tokenize(region) if b - a >= LONG]
        masked += len(words)
        back += [word for word in words if word in filled]
    return masked, back


def returned(reviews: list[str], synthetic: list[str], sanitiser: Sanitiser) -> None:
    ranks = ranked()[1]
    print()
    head("technique", "fill", "words masked", "back", "share", "common")
    for technique, texts in (("entity", synthetic), ("vocabulary", reviews), ("allow_list", reviews)):
        policy = MaskPolicy(techniques=(technique,))
        before = [inspect(text, policy, LISTS) for text in texts]
        for fill, epsilon in FILLS:
            tasks = [SanitizeTask(text, policy, fill, epsilon and epsilon * NANO) for text in texts]
            pairs = zip(before, sanitised(sanitiser, tasks), strict=True)
            counts, words = zip(*(came_back(own, answer) for own, answer in pairs), strict=True)
            masked, back = sum(counts), [word for found in words for word in found]
            common = sum(ranks.get(word, COMMON) < COMMON for word in back) / max(1, len(back))
            name = f"{fill}, {epsilon}" if epsilon else fill
            row(
                technique,
                name,
                masked,
                len(back),
                f"{len(back) / max(masked, 1):.4f}",
                f"{common:.3f}" if back else "–",
            )


def main() -> None:
    options = arguments(
        __doc__,
        needs_data=True,
        parts=["accuracy", "kept", "returned"],
        tasks=list(TASKS),
        train=1_000,
        test=500,
        documents=(1_000, "masked for `returned`; `kept` reads 50"),
        chars=(300, "of each document, for `kept` and `returned`"),
    )
    logging.disable()
    if "accuracy" in options.parts:
        accuracy(options.data, options.tasks, options.train, options.test)
    if options.parts != ["accuracy"]:
        sanitiser = Sanitiser(infill="bundled", fill_slots_max=SLOTS_MAX)
        reviews = read(options.data / "imdb/test.jsonl.gz", "text", options.documents, options.chars)
        texts = read(options.data / "pii/presidio_synth_v2.jsonl.gz", "full_text", options.documents, options.chars)
        if "kept" in options.parts:
            kept(reviews[:50], sanitiser)
        if "returned" in options.parts:
            returned(reviews, texts, sanitiser)


if __name__ == "__main__":
    main()

"""What word-level metric DP costs and what it leaves.

    python -m benchmarks.words --data DATA [--tasks CR MR TREC-6] [--train 1000] [--test 500]
    python -m benchmarks.words --speed

Utility: accuracy of a logistic regression on the bundled encoder's vectors of short texts (customer reviews, movie
reviews, questions), every word of which was replaced (technique `all`). *clear*: trained on public texts as they are;
*sanitised*: trained on texts replaced at the same epsilon. Speed: words a second (of processor time) of the
whole mechanisms, and of the paper's search alone beside two indexes of FAISS (where `faiss-cpu` is installed) on the
same noisy vectors, one thread each.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from core.amounts import NANO
from core.mechanisms.vectors.metric import MetricMechanism
from core.mechanisms.vectors.spec import vector_spec
from core.mechanisms.words.pricing import EXPONENTIAL, LAPLACE, worst_case_nano
from core.mechanisms.words.replacement import (
    NOISE_DIMENSION,
    ExponentialWords,
    LaplaceWords,
    Rows,
    WordMechanism,
    shipped,
)
from core.text.mask_words import AllowLists
from core.text.policy import MaskPolicy
from core.text.sanitize import inspect_words, replace_words
from gpu_workers.models.encoder import Encoder

EPSILONS = (2, 5, 10, 15, 20, 50)
TASKS = {"CR": ("cr_all", "cr_all"), "MR": ("mr_all", "mr_all"), "TREC-6": ("trec6_train", "trec6_test")}
SPEED_EPSILON = 20
SPEED_WORDS = 20_000
MECHANISMS: dict[str, WordMechanism] = {
    EXPONENTIAL: ExponentialWords(shipped()),
    LAPLACE: LaplaceWords(shipped().leading(NOISE_DIMENSION)),
}
Texts = list[str]


def read(data: Path, name: str) -> tuple[Texts, np.ndarray]:
    """Texts in a fixed random order, and their labels."""
    with gzip.open(data / "senteval" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    order = np.random.default_rng(0).permutation(len(rows))
    return [rows[i]["text"] for i in order], np.array([rows[i]["label"] for i in order])


def sanitised(texts: Texts, mechanism: str, epsilon: float) -> tuple[Texts, float]:
    """The texts with every word replaced, and the share of words that came out as themselves."""
    found = [inspect_words(text, MaskPolicy(techniques=("all",)), AllowLists()) for text in texts]
    results = replace_words(found, [round(epsilon * NANO)] * len(texts), MECHANISMS[mechanism])
    pairs = [
        (old.lower(), new)
        for each, result in zip(found, results, strict=True)
        for old, new in zip(each.text.split(), result.text.split(), strict=True)
    ]
    return [result.text for result in results], sum(old == new for old, new in pairs) / len(pairs)


def utility(data: Path, tasks: Sequence[str], train: int, test: int) -> None:
    encoder = Encoder()
    print("| task | mechanism | epsilon per unit | worst case | unchanged | trained clear | trained sanitised |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for task in tasks:
        source, other = TASKS[task]
        texts, labels = read(data, source)
        if other == source:
            tested, truth = texts[-test:], labels[-test:]
        else:
            tested, truth = (part[:test] for part in read(data, other))
        texts, labels = texts[:train], labels[:train]

        def fitted(texts: Texts, labels: np.ndarray = labels):
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.01))
            return model.fit(encoder.encode(texts), labels)

        clear = fitted(texts)
        most = max(np.unique(truth, return_counts=True)[1]) / len(truth)
        score = clear.score(encoder.encode(tested), truth)
        print(f"| {task} | not private | – | – | 1.000 | {score:.3f} | – |", flush=True)
        for mechanism, epsilon in product(MECHANISMS, EPSILONS):
            released, kept = sanitised(tested, mechanism, epsilon)
            rows = encoder.encode(released)
            own = fitted(sanitised(texts, mechanism, epsilon)[0])
            worst = worst_case_nano(epsilon * NANO, mechanism=mechanism) / NANO
            scores = f"{clear.score(rows, truth):.3f} | {own.score(rows, truth):.3f}"
            print(f"| {task} | {mechanism} | {epsilon} | {worst:.1f} | {kept:.3f} | {scores} |", flush=True)
        print(f"| {task} | most frequent label | – | 0 | – | {most:.3f} | {most:.3f} |", flush=True)


def common_words(count: int) -> Texts:
    """Words of the vocabulary, as frequent as in text (by Zipf's law)."""
    words = shipped().words
    weights = 1 / (np.arange(len(words)) + 10)
    drawn = np.random.default_rng(0).choice(len(words), count, p=weights / weights.sum())
    return [words[i] for i in drawn]


def noisy(words: Texts, epsilon: int) -> Rows:
    """Their noisy vectors."""
    vocabulary = shipped().leading(NOISE_DIMENSION)
    spec = vector_spec(mechanism="laplace", dimension=vocabulary.dimension, epsilon=epsilon)
    vectors = vocabulary.rows(words).astype(np.float32) / vocabulary.scale
    return MetricMechanism(spec, None).release(vectors) * vocabulary.scale


def timed(work: Callable[[], object], count: int) -> float:
    """Words a second of processor time, the best of three: others may be at work on the machine."""
    took = []
    for _ in range(3):
        begun = time.process_time()
        work()
        took.append(time.process_time() - begun)
    return count / min(took)


def speed() -> None:
    words, distinct = common_words(SPEED_WORDS), list(shipped().words[:5_000])
    with threadpool_limits(1):
        for name, mechanism in MECHANISMS.items():
            for kind, some in (("as in text", words), ("all different", distinct)):
                nano = [SPEED_EPSILON * NANO] * len(some)
                rate = timed(lambda m=mechanism, w=some, e=nano: m.release(w, e), len(some))
                print(f"{name:<11}, {kind:<13} {rate:>9.0f} words/s")
        compare_search(noisy(words, SPEED_EPSILON))


def compare_search(points: Rows) -> None:
    vocabulary = shipped().leading(NOISE_DIMENSION)
    print(f"search, matmul {timed(lambda: vocabulary.nearest(points), len(points)):>9.0f} words/s")
    exact = vocabulary.nearest(points)
    try:
        import faiss
    except ImportError:
        print("faiss-cpu is not installed: no comparison")
        return
    faiss.omp_set_num_threads(1)
    flat, graph = faiss.IndexFlatL2(vocabulary.dimension), faiss.IndexHNSWFlat(vocabulary.dimension, 32)
    for name, index in (("flat", flat), ("HNSW", graph)):
        index.add(vocabulary.codes.astype(np.float32))
        found = [vocabulary.words[i] for i in index.search(points, 1)[1][:, 0]]
        same = np.mean([one == other for one, other in zip(found, exact, strict=True)])
        rate = timed(lambda index=index: index.search(points, 1), len(points))
        print(f"search, {name:<6} {rate:>9.0f} words/s, {same:.4f} of them as matmul")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--train", type=int, default=1_000)
    parser.add_argument("--test", type=int, default=500)
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.speed or options.data is None:
        speed()
    else:
        utility(options.data, options.tasks, options.train, options.test)


if __name__ == "__main__":
    main()

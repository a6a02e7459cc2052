"""Which words of a text an attacker reads from its released vector.

The attacker has other texts of the same origin, with their topics, runs the mechanism on them, and sees the released
vector and the topic of each attacked text. Two attacks:

* **words**: a linear inverter from the released vector to the words, fitted on the attacker's texts;
* **neighbour**: a linear map from released vectors to clean ones, fitted on the attacker's texts (the alignment of
  ALGEN, arXiv 2502.11308), then the attacker's text whose clean vector is nearest.

The baseline is the guess from the **topic** alone, the label or cluster: its most frequent words. The inverter predicts
what the vector adds to the topic, so that it falls back to the topic's guess where it can read nothing.

No public text is part of the project, so the attacker's texts are a half of the caller's. Such an attacker is stronger
than one with public texts of another origin.

Score: token F1 over multisets of lower-case words, without those that more than COMMON of the attacker's texts have,
unless there are no others: anybody guesses them. The j-th copy of a word in a text is one item, so a multiset is a set
of items, and an overlap is the size of an intersection.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge

from gpu_workers.evaluation.corpus import FloatArray, scaled
from gpu_workers.evaluation.utility import Estimate, Labels

VICTIMS_MAX = 500
COMMON = 0.1
_ITEMS_MAX = 4_000  # the most frequent ones, which a guess may contain
_LENGTHS = 24  # lengths of a guess that the attacker tries
_RIDGES = (0.03, 0.3, 3.0, 30.0)  # for each row, in units of the mean variance of a coordinate
_WORD = re.compile(r"[^\W\d_]+")

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Inversion:
    """Means over the attacked texts, with Student's interval for 95 %, which covers the choice of texts and the noise.

    `words`, `neighbour`, `topic`: token F1. `words_beyond`, `neighbour_beyond`: of the differences to `topic`, text by
    text.
    """

    name: str
    epsilon: float | None
    words: Estimate
    neighbour: Estimate
    topic: Estimate
    words_beyond: Estimate
    neighbour_beyond: Estimate


class Attacker:
    """Knows a half of the texts, and guesses the words of at most VICTIMS_MAX others."""

    def __init__(self, texts: Sequence[str], topics: Labels, *, seed: int) -> None:
        """Raises: ValueError for fewer than 20 texts."""
        if len(texts) < 20:
            raise ValueError("at least 20 texts")
        order = np.random.default_rng(seed).permutation(len(texts))
        half = len(texts) // 2
        self.known, self.victims = order[:half], order[half:][:VICTIMS_MAX]
        self._topics = topics
        words = [_WORD.findall(texts[row].lower()) for row in np.concatenate([self.known, self.victims])]
        having = Counter(word for own in words[:half] for word in {*own})
        common = {word for word, count in having.items() if count > COMMON * half}
        common = common if len(common) < len(having) else set()
        self._items = _items([[word for word in own if word not in common] for own in words])
        self._known_items, self._victim_items = self._items[: len(self.known)], self._items[len(self.known) :]
        frequent = np.argsort(-self._known_items.sum(axis=0), kind="stable")[:_ITEMS_MAX]
        self._guessable = self._known_items[:, frequent].toarray().astype(np.float32)
        self._victim_guessable = self._victim_items[:, frequent].toarray().astype(np.float32)
        self._sizes = self._known_items.sum(axis=1), self._victim_items.sum(axis=1)
        cut = max(1, len(self.known) // 5)
        self._tried, self._fitted = np.arange(cut), np.arange(cut, len(self.known))
        expected = self._by_topic(self._fitted, topics[self.known[self._tried]])
        length, _ = self._best_length(expected)
        guess = self._by_topic(np.arange(len(self.known)), topics[self.victims])
        self._topic = _f1(guess, self._victim_guessable, self._sizes[1], [length])[:, 0]

    def attack(self, name: str, epsilon: float | None, released: FloatArray, clean: FloatArray) -> Inversion:
        """Attack one release of all texts. Shapes: `released` `[n, m]`, `clean` `[n, d]`."""
        rows = released / np.float32(np.sqrt(np.mean(np.var(released[self.known], axis=0))) or 1.0)
        words, neighbour = self._words(rows), self._neighbour(rows, scaled(clean))
        return Inversion(
            name,
            epsilon,
            *(Estimate.of(list(each)) for each in (words, neighbour, self._topic)),
            *(Estimate.of(list(each - self._topic)) for each in (words, neighbour)),
        )

    def _words(self, rows: FloatArray) -> Scores:
        """Fit on most of the attacker's texts, choose ridge and length on the rest, then fit on all of them."""
        known = rows[self.known]
        own = self._topics[self.known]
        fitted, tried = self._fitted, self._tried
        beyond = self._guessable[fitted] - self._by_topic(fitted, own[fitted])
        topic = self._by_topic(fitted, own[tried])
        best = []
        for ridge in _RIDGES:
            model = _ridge(ridge, known[fitted], beyond)
            length, score = self._best_length(topic + model.predict(known[tried]))
            best.append((score, ridge, length))
        _, ridge, length = max(best)
        every = np.arange(len(own))
        model = _ridge(ridge, known, self._guessable - self._by_topic(every, own))
        expected = self._by_topic(every, self._topics[self.victims]) + model.predict(rows[self.victims])
        return _f1(expected, self._victim_guessable, self._sizes[1], [length])[:, 0]

    def _neighbour(self, rows: FloatArray, clean: FloatArray) -> Scores:
        known, goals = rows[self.known], clean[self.known]
        fitted, tried = self._fitted, self._tried
        errors = [
            (np.square(_ridge(ridge, known[fitted], goals[fitted]).predict(known[tried]) - goals[tried]).sum(), ridge)
            for ridge in _RIDGES
        ]
        aligned = _ridge(min(errors)[1], known, goals).predict(rows[self.victims])
        near = np.argmax(aligned @ goals.T, axis=1)
        both = self._known_items[near].multiply(self._victim_items).sum(axis=1)
        return np.asarray(2 * both / np.maximum(1, self._sizes[0][near] + self._sizes[1]), dtype=np.float64)

    def _by_topic(self, known: Labels, topics: Labels) -> FloatArray:
        """Return how frequent each item is in the attacker's texts of each of these topics, `[len(topics), items]`; in
        all of them for a topic that the attacker does not have."""
        own = self._topics[self.known[known]]
        everything = self._guessable[known].mean(axis=0)
        means = {
            topic: self._guessable[known[own == topic]].mean(axis=0) if (own == topic).any() else everything
            for topic in np.unique(topics)
        }
        return np.stack([means[topic] for topic in topics])

    def _best_length(self, expected: FloatArray) -> tuple[int, float]:
        """Return the length of a guess with the best mean F1 on the attacker's texts that are not fitted, and it."""
        longest = max(1, min(self._guessable.shape[1], 2 * int(self._sizes[0].max())))
        lengths = sorted({*np.geomspace(1, longest, _LENGTHS).astype(int).tolist()})
        means = _f1(expected, self._guessable[self._tried], self._sizes[0][self._tried], lengths).mean(axis=0)
        best = int(means.argmax())
        return lengths[best], float(means[best])


def _ridge(ridge: float, rows: FloatArray, targets: FloatArray) -> Ridge:
    return Ridge(ridge * len(rows)).fit(rows, targets)


def _items(texts: Sequence[Sequence[str]]) -> csr_array:
    """Return which items each text has, by its words, `[n, items]`, 0 or 1."""
    places: dict[tuple[str, int], int] = {}
    columns: list[int] = []
    ends = [0]
    for text in texts:
        seen: Counter[str] = Counter()
        for word in text:
            seen[word] += 1
            columns.append(places.setdefault((word, seen[word]), len(places)))
        ends.append(len(columns))
    return csr_array((np.ones(len(columns), dtype=np.int32), columns, ends), shape=(len(texts), max(1, len(places))))


def _f1(expected: FloatArray, truth: FloatArray, sizes: Labels, lengths: Sequence[int]) -> Scores:
    """Return the F1 of a guess of the most expected items, for each text and each length, `[n, lengths]`.

    `truth`: which of the same items each text has. `sizes`: how many it has with those that no guess may contain.
    """
    order = np.argsort(-expected, axis=1, kind="stable")[:, : max(lengths)]
    right = np.cumsum(np.take_along_axis(truth, order, axis=1), axis=1, dtype=np.float64)[:, np.array(lengths) - 1]
    return np.asarray(2 * right / (np.array(lengths) + sizes[:, None]))

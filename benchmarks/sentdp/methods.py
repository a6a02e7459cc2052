"""The rows of the comparison: a name, what it guarantees, the classifier's training features and a release.

The mechanisms of the gateway run through their own classes. `truncation`, `mean_laplace` and word-level metric DP are
simulated with floating-point noise of NumPy's generator: they measure utility and release nothing to anybody. Each
document is float32 `[k, d]`, one row a sentence; each answer float32 `[n, d]`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from core.amounts import NANO
from core.mechanisms.sentences.deep_candidate import DeepCandidate, Recoder
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, protection, sentence_mechanism
from core.mechanisms.sentences.release import SentenceMechanism
from gpu_workers.domains import build_pack
from gpu_workers.domains.spec import Embedded
from gpu_workers.models.encoder import Encoder
from training.public_text import Document

FloatArray = npt.NDArray[np.float32]
Documents = Sequence[FloatArray]
OWN, GENERAL, LABELLED = "own pack", "general pack", "own pack with labels"
NON_PRIVATE = "non-private"
BOX_SHARE = 0.75
_WORD = re.compile(r"[^\W_]+")
_WHOLE = re.compile(r"[a-z]{2,}")
_CHUNK = 2_048
_PAIRS = 100_000


@dataclass(frozen=True)
class Method:
    """`space` names the clean training features; `release` maps documents and epsilon to vectors of that space."""

    name: str
    protects: str
    space: str
    release: Callable[[Documents, float], FloatArray]
    private: bool = True  # False: the answer is the same at every epsilon
    random: bool = True  # False: one trial says all


def means(documents: Documents, _: float = 0) -> FloatArray:
    return np.stack([document.mean(axis=0) for document in documents])


def recoded(pack: DomainPack) -> Callable[[Documents, float], FloatArray]:
    """The clean means in the space of a pack."""
    recode = Recoder(pack.recoder, torch.device("cpu"))
    return lambda documents, _=0: means([recode(torch.from_numpy(document)).numpy() for document in documents])


def released(mechanism: SentenceMechanism, documents: Documents, epsilon: float) -> FloatArray:
    rows = [torch.from_numpy(document) for document in documents]
    return mechanism.release(rows, [round(epsilon * NANO)] * len(rows))


def classifier(rows: FloatArray, labels: list[str]) -> Pipeline:
    """A logistic regression fitted to the rows, one a document."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.01)).fit(rows, labels)


def macro_f1(model: Pipeline, vectors: FloatArray, labels: Sequence[str]) -> float:
    return float(f1_score(labels, model.predict(vectors), average="macro"))


class Classifiers:
    """Logistic regressions on clean features of the training split, one a space.

    The public `box` is the interval of each dimension that holds the middle 75 % of its document means.
    """

    def __init__(self, packs: Mapping[str, DomainPack], train: Embedded) -> None:
        tail = (1 - BOX_SHARE) / 2
        self.box = np.quantile(train.means(), (tail, 1 - tail), axis=0).astype(np.float32)
        clipped = Embedded(np.clip(train.vectors, *self.box), train.lengths, train.labels)
        features = {"encoder": train.means(), "truncated": clipped.means()}
        for title, pack in packs.items():
            features[f"recoded, {title}"] = build_pack.recoded_means(pack.recoder, train)
        self._models = {space: classifier(rows, train.labels) for space, rows in features.items()}

    def score(self, space: str, vectors: FloatArray, labels: Sequence[str]) -> float:
        return macro_f1(self._models[space], vectors, labels)


class PrintedDepth(DeepCandidate):
    """`deep_candidate` with the maximum that the paper's appendix prints: the best direction counts, not the worst.

    Same sensitivity, same guarantee: a minimum moves by no more than its arguments do.
    """

    @staticmethod
    def _over_directions(unbalance: torch.Tensor) -> torch.Tensor:
        return unbalance.amin(dim=0)


def shipped(name: str, title: str, pack: DomainPack, mechanism: SentenceMechanism | None = None) -> Method:
    """A mechanism of the gateway over the pack called `title`, through its own class."""
    own = mechanism or sentence_mechanism(name, pack)
    space = own.space if own.space == "encoder" else f"{own.space}, {title}"
    protects = "one sentence" if protection(own.name).unit == "sentence" else "whole document (stronger)"
    return Method(f"{name}, {title}", protects, space, lambda documents, epsilon: released(own, documents, epsilon))


def of_pack(title: str, pack: DomainPack, source: np.random.Generator) -> Iterator[Method]:
    """The rows that depend on a pack."""
    for name in SENTENCE_MECHANISMS:
        yield shipped(name, title, pack)
    yield shipped("deep_candidate as printed", title, pack, PrintedDepth(pack))
    space = f"recoded, {title}"
    yield Method(f"non-private, recoded, {title}", "nothing", space, recoded(pack), private=False, random=False)

    def guessed(documents: Documents, _: float) -> FloatArray:
        guesses: FloatArray = pack.candidates[source.integers(0, len(pack.candidates), len(documents))]
        return guesses

    yield Method(f"random candidate, {title}", "everything", "encoder", guessed, private=False)


def baselines(box: FloatArray, source: np.random.Generator) -> Iterator[Method]:
    """The rows that need embeddings alone."""

    def truncation(documents: Documents, epsilon: float) -> FloatArray:
        """Clip each sentence to the box, average, add Laplace noise to every dimension.

        Guarantee: eps for replacing one sentence, k public; eps is the total, eps/d a dimension (basic composition).
        Sensitivity: w_j / k in dimension j, hence scale d w_j / (k eps). Source: Li and Clifton 2021, as in Meehan,
        Mrini and Chaudhuri 2022, sections 5.3 and A.3.
        """
        lengths = np.array([len(document) for document in documents])
        clean = means([np.clip(document, *box) for document in documents])
        scale = clean.shape[1] * (box[1] - box[0]) / (lengths[:, None] * epsilon)
        return (clean + source.laplace(size=clean.shape) * scale).astype(np.float32)

    def mean_laplace(documents: Documents, epsilon: float) -> FloatArray:
        """The mean of unit-length sentences plus noise of density proportional to exp(-k eps |z|_2 / 2).

        Guarantee: eps for replacing one sentence, k public. Sensitivity: 2/k in the Euclidean norm (two unit vectors
        are at most 2 apart). The noise is a uniform direction times a Gamma(d, 2/(k eps)) length. Source: the K-norm
        mechanism (Hardt and Talwar 2010) with the Euclidean ball.
        """
        lengths = np.array([len(document) for document in documents])
        clean = means([_unit(document) for document in documents])
        return (clean + ball_noise(clean.shape, source) * (2 / (lengths[:, None] * epsilon))).astype(np.float32)

    yield Method("truncation", "one sentence", "truncated", truncation)
    yield Method("mean_laplace", "one sentence", "encoder", mean_laplace)
    yield Method(NON_PRIVATE, "nothing", "encoder", means, private=False, random=False)


def ball_noise(shape: tuple[int, int], source: np.random.Generator) -> npt.NDArray[np.float64]:
    """Rows of density proportional to exp(-|z|_2)."""
    rows, dimension = shape
    return _unit(source.standard_normal((rows, dimension))) * source.gamma(dimension, size=(rows, 1))


def _unit(rows: npt.NDArray) -> npt.NDArray:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


class WordMechanism:
    """Word-level metric DP: every word of a document is exchanged for a public word near its noisy vector.

    Guarantee: for a single word w replaced by w', eps * distance(w, w'); for a whole sentence the exponents of its
    words add up. Unit of distance: the median distance of two words of the vocabulary, so two typical words are
    eps-indistinguishable. At the same number eps this is far weaker than sentence-level eps. The number of words of
    each sentence is public; punctuation is dropped. Source: Feyisetan, Balle, Drake and Diethe 2020, as the baseline of
    Meehan, Mrini and Chaudhuri 2022.

    Word vectors: the bundled encoder's token table, whole lower-case words of two letters or more; a word outside the
    vocabulary has the mean vector of its word pieces.
    """

    def __init__(self, encoder: Encoder) -> None:
        from safetensors import safe_open
        from tokenizers import Tokenizer

        self._encoder = encoder
        self._tokenizer = Tokenizer.from_file(str(encoder.path / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        with safe_open(encoder.path / "model.safetensors", framework="numpy") as file:
            name = next(key for key in file.keys() if key.endswith("word_embeddings.weight"))  # noqa: SIM118
            table = file.get_tensor(name).astype(np.float32)
        words = {word: i for word, i in self._tokenizer.get_vocab().items() if _WHOLE.fullmatch(word)}
        self.words = sorted(words)
        own = table[[words[word] for word in self.words]]
        pairs = np.random.default_rng(0).integers(0, len(own), (2, _PAIRS))
        unit = float(np.median(np.linalg.norm(own[pairs[0]] - own[pairs[1]], axis=1)))
        self._table = table / unit
        # bfloat16 products are three times as fast, and a near tie between two words changes no average
        public = torch.from_numpy(own / unit)
        self._halves = public.square().sum(dim=1) / 2
        self._public_t = public.to(encoder.dtype).t()

    def release(
        self, documents: Sequence[Document], epsilon: float, source: np.random.Generator
    ) -> tuple[list[FloatArray], float]:
        """Sentence embeddings of the randomised documents, one `[k, d]` each, and the share of words unchanged."""
        split = [[_WORD.findall(sentence.lower()) for sentence in document.sentences] for document in documents]
        flat = [word for document in split for sentence in document for word in sentence]
        known = {word: i for i, word in enumerate(dict.fromkeys(flat))}
        pieces = self._tokenizer.encode_batch(list(known), add_special_tokens=False)
        vectors = np.stack([self._table[item.ids or [0]].mean(axis=0) for item in pieces])[[known[w] for w in flat]]
        chosen = self._nearest((vectors + ball_noise(vectors.shape, source) / epsilon).astype(np.float32))
        kept = float(np.mean([a == b for a, b in zip(flat, chosen, strict=True)]))
        stream = iter(chosen)
        texts = [[" ".join(next(stream) for _ in sentence) for sentence in document] for document in split]
        encoded = self._encoder.encode([sentence for document in texts for sentence in document])
        return np.split(encoded, np.cumsum([len(document) for document in texts])[:-1]), kept

    def _nearest(self, vectors: FloatArray) -> list[str]:
        """The nearest public word of each vector."""
        chosen: list[str] = []
        for rows in torch.from_numpy(vectors).split(_CHUNK):
            near = (rows.to(self._public_t.dtype) @ self._public_t).float() - self._halves
            chosen += [self.words[i] for i in near.argmax(dim=1).tolist()]
        return chosen

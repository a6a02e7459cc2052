"""The rows of the comparison: a name, what it guarantees, the classifier's training features and releases.

The mechanisms of the gateway run through their own classes. `truncation`, `mean_laplace` and word-level metric DP are
simulated with floating-point noise of NumPy's generator: they measure utility and release nothing to anybody. Each
document is float32 `[k, d]`, one row a sentence; each release float32 `[n, d]`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from core.amounts import NANO
from core.mechanisms.sentences.deep_candidate import DeepCandidate, Recoder
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, protection, sentence_mechanism
from core.mechanisms.sentences.release import CandidateMechanism, SentenceMechanism
from gpu_workers.domains import build_pack
from gpu_workers.domains.spec import Embedded, half
from gpu_workers.models.encoder import Encoder
from gpu_workers.models.encoder_model import bundled_path
from gpu_workers.models.integer.encoder import IntegerEncoder
from training.public_text import Document

FloatArray = npt.NDArray[np.float32]
Documents = Sequence[FloatArray]
Releases = Callable[[Documents, float, int], list[FloatArray]]
PAPER, NON_PRIVATE = "paper", "non-private"
PAPER_CANDIDATES, PAPER_LEAST, PAPER_PROJECTIONS = 5_000, 8, (10, 30, 100)
_WORD, _WHOLE = re.compile(r"[^\W_]+"), re.compile(r"[a-z]{2,}")
_CHUNK, _PAIRS, _GROUP = 2_048, 100_000, 16  # words placed, words compared, documents scored at once


@dataclass(frozen=True)
class Method:
    """`space` names the clean training features; `release` maps documents, epsilon and a number of trials to vectors of
    that space, one array a trial."""

    name: str
    protects: str
    space: str
    release: Releases
    private: bool = True  # False: the answer is the same at every epsilon


def means(documents: Documents) -> FloatArray:
    return np.stack([document.mean(axis=0) for document in documents])


def recoded(pack: DomainPack) -> Callable[[Documents], FloatArray]:
    """The clean means in the space of a pack."""
    recode = Recoder(pack.recoder, torch.device("cpu"))
    return lambda documents: means([recode(torch.from_numpy(document)).numpy() for document in documents])


def released(mechanism: SentenceMechanism, documents: Documents, epsilon: float, trials: int = 1) -> list[FloatArray]:
    """One release a trial. Candidates are scored once for all trials: scores do not depend on the draw."""
    rows = [torch.from_numpy(document) for document in documents]
    prices = [round(epsilon * NANO)] * len(rows)
    if not isinstance(mechanism, CandidateMechanism):
        return [mechanism.release(rows, prices) for _ in range(trials)]
    chosen = np.zeros((trials, len(rows)), dtype=np.int64)
    for start in range(0, len(rows), _GROUP):
        group = slice(start, start + _GROUP)
        for i, scores in enumerate(mechanism.scores(rows[group], prices[group]), start):
            chosen[:, i] = [mechanism.sample(scores, prices[i]) for _ in range(trials)]
    return [mechanism.outputs[each] for each in chosen]


def classifier(rows: FloatArray, labels: Sequence[str], *, network: bool = False) -> Pipeline:
    """A classifier fitted to the rows, one a document: a logistic regression, or the paper's network of four layers,
    trained for at most 20 epochs, until a tenth of the rows that is held out says stop."""
    layers = (rows.shape[1],) * 3
    deep = partial(MLPClassifier, layers, max_iter=20, early_stopping=True, n_iter_no_change=3, random_state=0)
    model = deep() if network else LogisticRegression(max_iter=300, C=0.01)
    return make_pipeline(StandardScaler(), model).fit(rows, labels)


def macro_f1(model: Pipeline, vectors: FloatArray, labels: Sequence[str]) -> float:
    return float(f1_score(labels, model.predict(vectors), average="macro"))


class Features:
    """Clean features of the training documents, by space. The public `box` is the interval of each dimension that holds
    the middle 75 % of their means."""

    def __init__(self, packs: Mapping[str, DomainPack], train: Embedded) -> None:
        self.box = np.quantile(train.means(), (0.125, 0.875), axis=0).astype(np.float32)
        clipped = replace(train, vectors=np.clip(train.vectors, *self.box))
        self.rows = {"encoder": train.means(), "truncated": clipped.means()}
        for title, pack in packs.items():
            self.rows[f"recoded, {title}"] = build_pack.recoded_means(pack.recoder, train)


class PrintedDepth(DeepCandidate):
    """`deep_candidate` with the maximum that the paper's appendix prints: the best direction counts, not the worst.

    Same sensitivity, same guarantee: a minimum moves by no more than its arguments do.
    """

    @staticmethod
    def _over_directions(unbalance: torch.Tensor) -> torch.Tensor:
        return unbalance.amin(dim=0)


def paper_pack(base: DomainPack, train: Embedded, held: Embedded, epsilons: Sequence[float]) -> DomainPack:
    """`base` with the recoder, the candidates and the projections of `deep_candidate` by the paper's sections 5.2 and
    A.3: random training documents of at least 8 sentences, 5,000 or all there are; for each epsilon the number of
    projections with the best macro-F1 on `held`, labels used."""
    draw = np.random.default_rng(0)
    layers = build_pack.train_recoder(train, build_pack.SEED, on_update=lambda _: None)
    long = build_pack.select(train, draw.permutation(np.flatnonzero(train.lengths >= PAPER_LEAST))[:PAPER_CANDIDATES])
    directions = draw.normal(size=(max(PAPER_PROJECTIONS), train.vectors.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    size = len(long.lengths)

    def pack(projections: Mapping[float, int]) -> DomainPack:
        first = replace(base.info.mechanism_parameters[0], depth_candidates=size)
        rows = tuple(replace(first, epsilon=epsilon, projections=count) for epsilon, count in projections.items())
        facts = {"candidates": size, "projections": max(PAPER_PROJECTIONS), "mechanism_parameters": rows}
        return replace(
            base,
            info=replace(base.info, **facts),
            recoder=layers,
            candidates=half(long.means()),
            recoded=half(build_pack.recoded_means(layers, long)),
            projections=half(directions),
        )

    head = classifier(build_pack.recoded_means(layers, train), train.labels)
    scores: dict[float, dict[int, float]] = {epsilon: {} for epsilon in epsilons}
    for count in PAPER_PROJECTIONS:
        mechanism = DeepCandidate(pack(dict.fromkeys(epsilons, count)))
        for epsilon in epsilons:
            scores[epsilon][count] = macro_f1(head, released(mechanism, held.documents(), epsilon)[0], held.labels)
    return pack({epsilon: max(own, key=lambda count: own[count]) for epsilon, own in scores.items()})


def of_packs(packs: Mapping[str, DomainPack]) -> Iterator[Method]:
    """The mechanisms of the gateway over each pack, through their own classes. Of the paper's pack `deep_candidate`."""
    for title, pack in packs.items():
        names = SENTENCE_MECHANISMS if title != PAPER else ("deep_candidate",)
        built = [(name, sentence_mechanism(name, pack)) for name in names]
        built += [("deep_candidate as printed", PrintedDepth(pack))] if title == PAPER else []
        for name, own in built:
            space = own.space if own.space == "encoder" else f"{own.space}, {title}"
            protects = "one sentence" if protection(own.name).unit == "sentence" else "whole document (stronger)"
            yield Method(f"{name}, {title}", protects, space, partial(released, own))


def baselines(box: FloatArray, source: np.random.Generator) -> Iterator[Method]:
    """The rows that need embeddings alone."""

    def truncation(documents: Documents, epsilon: float, trials: int) -> list[FloatArray]:
        """Clip each sentence to the box, average, add Laplace noise to every dimension.

        Guarantee: eps for replacing one sentence, k public; eps is the total, eps/d a dimension (basic composition).
        Sensitivity: w_j / k in dimension j, hence scale d w_j / (k eps). Source: Li and Clifton 2021, as in Meehan,
        Mrini and Chaudhuri 2022, sections 5.3 and A.3.
        """
        lengths = np.array([len(document) for document in documents])
        clean = means([np.clip(document, *box) for document in documents])
        scale = clean.shape[1] * (box[1] - box[0]) / (lengths[:, None] * epsilon)
        return [(clean + source.laplace(size=clean.shape) * scale).astype(np.float32) for _ in range(trials)]

    def mean_laplace(documents: Documents, epsilon: float, trials: int) -> list[FloatArray]:
        """The mean of unit-length sentences plus noise of density proportional to exp(-k eps |z|_2 / 2).

        Guarantee: eps for replacing one sentence, k public. Sensitivity: 2/k in the Euclidean norm (two unit vectors
        are at most 2 apart). The noise is a uniform direction times a Gamma(d, 2/(k eps)) length. Source: the K-norm
        mechanism (Hardt and Talwar 2010) with the Euclidean ball.
        """
        lengths = np.array([len(document) for document in documents])
        clean = means([_unit(document) for document in documents])
        scale = 2 / (lengths[:, None] * epsilon)
        return [(clean + ball_noise(clean.shape, source) * scale).astype(np.float32) for _ in range(trials)]

    yield Method("truncation", "one sentence", "truncated", truncation)
    yield Method("mean_laplace", "one sentence", "encoder", mean_laplace)
    yield Method(NON_PRIVATE, "nothing", "encoder", lambda documents, *_: [means(documents)], private=False)


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

    def __init__(self, encoder: Encoder | IntegerEncoder) -> None:
        from safetensors import safe_open
        from tokenizers import Tokenizer

        self._encoder = encoder
        self._tokenizer = Tokenizer.from_file(str(bundled_path() / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        with safe_open(bundled_path() / "model.safetensors", framework="numpy") as file:
            name = next(key for key in file.keys() if key.endswith("word_embeddings.weight"))  # noqa: SIM118
            table = file.get_tensor(name).astype(np.float32)
        words = {word: i for word, i in self._tokenizer.get_vocab().items() if _WHOLE.fullmatch(word)}
        self.words = sorted(words)
        own = table[[words[word] for word in self.words]]
        pairs = np.random.default_rng(0).integers(0, len(own), (2, _PAIRS))
        self.unit = float(np.median(np.linalg.norm(own[pairs[0]] - own[pairs[1]], axis=1)))
        self._table = table / self.unit
        public = torch.from_numpy(own / self.unit)
        self._halves = public.square().sum(dim=1) / 2
        self._public_t = public.t()

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
            chosen += [self.words[i] for i in (rows @ self._public_t - self._halves).argmax(dim=1).tolist()]
        return chosen

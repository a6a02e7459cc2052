"""Audits end to end: raw text goes to a running gateway over HTTP, and the released vectors and words are attacked.

Neighbours are searched among short public sentences. This module loads the shipped encoder and packs for the law alone.
Copies of a document in a request are released independently, so each counts as a run.
"""

import atexit
import base64
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from audits.kit import Audit, Case, FloatArray, Found, Scale, audit, by_law
from audits.sentences import exponential_law, permute_and_flip_law
from audits.texts import word_law
from audits.vectors import vector_pack
from gateway_kit import Gateway, Tenant
from model_kit import ModelServer

from core.amounts import EPSILON_MAX, NANO
from core.mechanisms.sentences.clipped_cosine import ClippedCosine, clip_level
from core.mechanisms.sentences.deep_candidate import SENSITIVITY, DeepCandidate
from core.mechanisms.sentences.document_selection import DocumentSelection, subset_size
from core.mechanisms.sentences.domain_pack import CodeNoise, DomainPack
from core.mechanisms.sentences.registry import protection
from core.mechanisms.sentences.sentence_codes import SentenceCodes, TableRelease
from core.mechanisms.vectors.codebook import TrainedCodebookMechanism
from core.mechanisms.vectors.pricing import ADJACENCY_ALL
from core.mechanisms.vectors.pure import vector_mechanism
from core.mechanisms.vectors.spec import PACK_DIMENSION, vector_spec
from core.mechanisms.words import pricing
from core.mechanisms.words.replacement import shipped
from core.text.segment import sentences
from gpu_workers import packs
from gpu_workers.models.encoder import Encoder

POOL = (
    "No.",
    "Yes.",
    "What a film!",
    "Buy gold now!",
    "The pitcher threw a perfect game.",
    "God is love.",
    "My graphics card overheats.",
    "Send bids for the bicycle by mail.",
    "The rocket reached orbit.",
    "I hated every minute of it.",
    "A masterpiece, funny and moving.",
    "The court ruled against the state.",
    "Encrypt it with a longer key.",
    "He takes two pills a day.",
    "Doctors found no cure.",
    "The engine needs oil.",
    "1 2 3 4 5 6 7 8 9",
    "?",
)
EPSILON = 12.0  # of the policies
POLICIES = f"""
[policies.slot]
fill = {{ mode = "dp", epsilon = {EPSILON} }}
mask = {{ techniques = ["all"] }}

[policies.document]
fill = {{ mode = "dp", epsilon = {EPSILON}, scope = "document" }}
mask = {{ techniques = ["all"] }}
"""
RUNS = 10_240
_PILOT = 4_000  # releases of each side that an attack is fitted to
DOCUMENTS = 256


@lru_cache(maxsize=1)
def model() -> ModelServer:
    """The language model that the gateway sends to."""
    return ModelServer(lambda _: "Read.")


@lru_cache(maxsize=1)
def tenant() -> Tenant:
    """Of a gateway of this process, which ends with it."""
    folder = tempfile.TemporaryDirectory(prefix="audit-")
    policies = Path(folder.name) / "policies.toml"
    policies.write_text(POLICIES)
    settings = {
        "PRIVACY_GATEWAY_TAGGER": "off",
        "PRIVACY_GATEWAY_UPSTREAMS": model().setting,
        "PRIVACY_GATEWAY_POLICIES_FILE": str(policies),
    }
    gateway = Gateway(Path(folder.name) / "data", settings)

    def stop() -> None:
        gateway.stop()
        folder.cleanup()

    atexit.register(stop)
    return gateway.tenant(epsilon=EPSILON_MAX)


@lru_cache(maxsize=1)
def encoder() -> Encoder:
    return Encoder()


@lru_cache(maxsize=1)
def shipped_pack() -> DomainPack:
    return DomainPack.load(Path(packs.__file__).parent / "general.safetensors")


Fill = Callable[[str, int, str, float], list[str]]


def posted(path: str, body: dict[str, Any]) -> Any:
    answer = tenant().http.post(path, json=body)
    if answer.status_code != 200:
        raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:300]}")
    return answer.json()["data"]


def vectors_of(data: list[dict[str, Any]]) -> np.ndarray:
    return np.stack([np.frombuffer(base64.b64decode(row["embedding"]), dtype="<f4") for row in data])


def embedded(text: str, mechanism: str, epsilon: float, runs: int, **fields: Any) -> np.ndarray:
    """Released vectors of `runs` copies of a text."""
    body = {"epsilon": epsilon, "mechanism": mechanism, "encoding_format": "base64", **fields}
    found = []
    for start in range(0, runs, DOCUMENTS):
        documents = [{"text": text}] * min(DOCUMENTS, runs - start)
        found.append(vectors_of(posted("/embed/sentdp", {"documents": documents, **body})))
    return np.concatenate(found)


def texts(counts: Sequence[int] = (1, 2)) -> Iterator[tuple[str, str]]:
    """Pairs of texts of so many sentences that differ in one, as the gateway cuts them."""
    pairs = list(permutations(POOL, 2))
    rng = np.random.default_rng(101)
    for first, second in (pairs[i] for i in rng.permutation(len(pairs))):
        other = first if rng.random() < 0.5 else str(rng.choice(POOL))
        for count in counts:
            pair = (f"{other} " * (count - 1) + first, f"{other} " * (count - 1) + second)
            if all(len(sentences(text)) == count for text in pair):
                yield pair


def vectors(text: str) -> torch.Tensor:
    return torch.from_numpy(encoder().encode(sentences(text)))


def selection_law(kind: type, text: str, epsilon: float) -> FloatArray:
    """The law of the candidate that is released."""
    mechanism = _mechanism(kind)
    nano, pack = round(epsilon * NANO), shipped_pack()
    if isinstance(mechanism, DocumentSelection):
        size = pack.info.candidates
        law = np.ones(size)
        law[mechanism.subsets([vectors(text)], subset_size(size, nano))[0]] = np.exp(epsilon)
        return np.asarray(law / law.sum())
    scores = mechanism.scores([vectors(text)], [nano])[0].astype(np.float64)
    if kind is DeepCandidate:
        return exponential_law(scores, epsilon, SENSITIVITY)
    return permute_and_flip_law(
        scores, epsilon, clip_level(pack.info.parameters_for(nano).threshold, pack.info.dimension)
    )


@lru_cache(maxsize=4)
def _mechanism(kind: type) -> Any:
    return kind(shipped_pack())


def selection_cases(kind: Any, epsilon: float) -> Iterator[Case]:
    released = shipped_pack().recoded if kind is DeepCandidate else shipped_pack().candidates
    places: dict[bytes, int] = {}  # of candidates that are alike, the first
    for index, row in enumerate(np.asarray(released, dtype="<f4")):
        places.setdefault(row.tobytes(), index)
    for pair in texts():
        ratio, law = by_law(*(selection_law(kind, text, epsilon) for text in pair))

        def draw(side: int, runs: int, pair: tuple[str, str] = pair, ratio: FloatArray = ratio) -> FloatArray:
            found = embedded(pair[side], kind.name, epsilon, runs)
            return np.asarray(ratio[[places[row.tobytes()] for row in found]])

        yield Case(f"'{pair[0]}' and '{pair[1]}'", epsilon, draw, law)


def code_cases(epsilon: float, count: int) -> Iterator[Case]:
    """Documents of `count` sentences, which decides on the table. One response is read off a release of one sentence.
    Counts are attacked by a linear score of the release, fitted to further releases of both texts."""
    mechanism = SentenceCodes(shipped_pack())
    release, own_nano = mechanism.table_for(round(epsilon * NANO), sentences=count)
    table = release.table
    if table.noise is CodeNoise.RESPONSES and count > 1:
        raise ValueError("two responses show less than one")
    for pair in texts((count,)):
        documents = [vectors(text) for text in pair]
        codes = [mechanism.codes([document], table.size) for document in documents]
        if np.array_equal(*(np.bincount(each, minlength=table.size) for each in codes)):
            continue
        if table.noise is CodeNoise.COUNTS:
            yield Case(f"'{pair[0]}' and '{pair[1]}'", epsilon, _scored(mechanism, pair, documents, epsilon))
        else:
            yield one_response(release, own_nano / NANO, pair, codes, epsilon)


def one_response(
    release: TableRelease, own_epsilon: float, pair: tuple[str, str], codes: list[Any], epsilon: float, **fields: Any
) -> Case:
    """`own_epsilon` is that of the noise, at most the claimed `epsilon`. `fields`: of the requests."""
    table = release.table
    known = table.vectors + table.offset
    if release.decoder is not None:
        each = np.eye(table.size, dtype=np.int64)
        known = known + release.decoder.of_histograms(each, np.ones(table.size, dtype=np.int64))
    kept = np.exp(own_epsilon) / (np.exp(own_epsilon) + table.size - 1)
    laws = np.full((2, table.size), (1 - kept) / (table.size - 1))
    laws[0, codes[0]] = laws[1, codes[1]] = kept
    ratio, law = by_law(laws[0], laws[1])

    def draw(side: int, runs: int) -> FloatArray:
        found = embedded(pair[side], "sentence_codes", epsilon, runs, **fields).astype(np.float64)
        return np.asarray(ratio[_nearest(found, known)])

    return Case(f"'{pair[0]}' and '{pair[1]}'", epsilon, draw, law)


def _scored(
    mechanism: SentenceCodes, pair: tuple[str, str], documents: list[torch.Tensor], epsilon: float
) -> Callable[[int, int], FloatArray]:
    nano = round(epsilon * NANO)
    drawn = [mechanism.release([document] * _PILOT, [nano] * _PILOT).astype(np.float64) for document in documents]
    away = drawn[0].mean(axis=0) - drawn[1].mean(axis=0)
    spread = sum(np.cov(rows.T) for rows in drawn)
    score = np.linalg.solve(spread + 1e-6 * np.trace(spread) / len(spread) * np.eye(len(spread)), away)

    def draw(side: int, runs: int) -> FloatArray:
        return np.asarray(embedded(pair[side], "sentence_codes", epsilon, runs).astype(np.float64) @ score)

    return draw


def _nearest(rows: FloatArray, centres: np.ndarray) -> np.ndarray:
    wide = centres.astype(np.float64)
    return np.asarray(((wide * wide).sum(axis=1) - 2 * rows @ wide.T).argmin(axis=1))


def text_vector_cases(epsilon: float) -> Iterator[Case]:
    """`/embed/vector` with texts: the trained codebook, to which texts go by default."""
    spec = vector_spec(mechanism="codebook", dimension=PACK_DIMENSION, epsilon=epsilon, projection="pca")
    mechanism = vector_mechanism(spec, None, vector_pack())
    assert isinstance(mechanism, TrainedCodebookMechanism)
    known = np.asarray(mechanism.vectors, dtype="<f4")
    places = {row.tobytes(): index for index, row in enumerate(known)}
    codes = mechanism.codes(encoder().encode(list(POOL)))
    for one, other in permutations(range(len(POOL)), 2):
        laws = np.ones((2, len(known)))
        laws[0, codes[one]] = laws[1, codes[other]] = np.exp(epsilon)
        laws /= laws.sum(axis=1, keepdims=True)
        ratio, law = by_law(laws[0], laws[1])

        def draw(side: int, runs: int, pair: Any = (POOL[one], POOL[other]), ratio: FloatArray = ratio) -> FloatArray:
            body = {"texts": [pair[side]] * runs, "epsilon": epsilon, "encoding_format": "base64"}
            return np.asarray(ratio[[places[row.tobytes()] for row in vectors_of(posted("/embed/vector", body))]])

        yield Case(f"'{POOL[one]}' and '{POOL[other]}'", epsilon, draw, law)


def laplace_cases(epsilon: float) -> Iterator[Case]:
    """`/embed/vector` with vectors as JSON, of one dimension; the claim is the distance after clipping."""
    for one, other in ((1.0, -1.0), (1e300, -3.0), (1.0, 0.0), (-0.5, 0.5)):

        def draw(side: int, runs: int, pair: tuple[float, float] = (one, other)) -> FloatArray:
            body = {"vectors": [[pair[side]]] * runs, "epsilon": epsilon, "mechanism": "laplace"}
            data = posted("/embed/vector", {**body, "encoding_format": "base64"})
            released = vectors_of(data)[:, 0].astype(np.float64)
            near, far = np.clip(pair, -1, 1)
            return np.asarray(np.abs(released - far) - np.abs(released - near))

        yield Case(f"{one:g} and {other:g}", epsilon * float(abs(np.subtract(*np.clip((one, other), -1, 1)))), draw)


def sanitised(text: str, runs: int, fill: dict[str, Any]) -> list[str]:
    """What comes out of `runs` copies of a text of which every word is masked."""
    found: list[str] = []
    for start in range(0, runs, DOCUMENTS):
        documents = [{"text": text}] * min(DOCUMENTS, runs - start)
        body = {"documents": documents, "mask": {"techniques": ["all"]}, "fill": fill}
        found += [row["text"] for row in posted("/sanitize", body)]
    return found


def word_cases(epsilon: float) -> Iterator[Case]:
    """`metric_dp` words of the shipped vocabulary."""
    known = shipped()
    places = {word: index for index, word in enumerate(known.words)}
    rng = np.random.default_rng(102)
    while True:
        pair = [*(known.words[i] for i in rng.integers(len(known.words), size=2)), "zworykin"]
        pair = [pair[i] for i in rng.permutation(3)[:2]]
        rows = known.rows(pair).astype(np.float64) / known.scale
        distance = float(np.linalg.norm(rows[0] - rows[1]))
        if distance < 0.5:
            continue
        ratio, law = by_law(*(word_law(known, word, epsilon) for word in pair))

        def draw(side: int, runs: int, pair: list[str] = pair, ratio: FloatArray = ratio) -> FloatArray:
            drawn = sanitised(pair[side], runs, {"mode": "metric_dp", "epsilon": epsilon})
            return np.asarray(ratio[[places[word] for word in drawn]])

        yield Case(f"'{pair[0]}' and '{pair[1]}', {distance:.2f} apart", epsilon * distance, draw, law)


def sanitised_by_dp(text: str, runs: int, scope: str, epsilon: float) -> list[str]:
    return sanitised(text, runs, {"mode": "dp", "epsilon": epsilon, "scope": scope})


def fill_cases(scope: str, epsilon: float, fill: Fill = sanitised_by_dp) -> Iterator[Case]:
    """The fill `dp`; the event is that the words come out unchanged."""
    pairs = [("good", "house"), ("the", "water"), ("zworykin", "good"), ("good", "zworykin")]
    if scope == "slot":
        pairs += [(f"the {one}", f"the {other}") for one, other in pairs]
    for pair in pairs:

        def draw(side: int, runs: int, pair: tuple[str, str] = pair) -> FloatArray:
            drawn = fill(pair[side], runs, scope, epsilon)
            return np.asarray([float(text == pair[0]) - float(text == pair[1]) for text in drawn])

        yield Case(f"'{pair[0]}' and '{pair[1]}'", epsilon, draw, event="the first text comes out unchanged")


def runs_of(
    cases: Callable[[], Iterator[Case]], runs: int = RUNS, pairs: int = 400, pilot: int = 2_048
) -> Callable[[Scale], Found]:
    """A twentieth of the runs of other audits, `runs` at most."""

    def go(scale: Scale) -> Found:
        return audit(cases(), Scale(min(scale.runs // 20, runs), min(scale.pairs, pairs), pilot), batch=2_048)

    return go


def _sentence_audits() -> Iterator[tuple[str, str, str, str, Callable[[Scale], Found]]]:
    """Identifier, name, guarantee, adjacency and run of each audit of `/embed/sentdp`."""
    one, whole = protection("sentence_codes").adjacency, protection("document_selection").adjacency
    counts = runs_of(lambda: code_cases(3.0, 3), pairs=3, pilot=1_024)
    short = runs_of(lambda: code_cases(3.0, 1), pairs=60)
    responses = runs_of(lambda: code_cases(6.0, 1), pairs=60)
    yield "http-sentence-codes-counts", "/embed/sentdp, sentence_codes, counts", "pure", one, counts
    yield "http-sentence-codes-short", "/embed/sentdp, sentence_codes, short", "pure", one, short
    yield "http-sentence-codes-responses", "/embed/sentdp, sentence_codes, responses", "pure", one, responses
    for kind, adjacency in ((ClippedCosine, one), (DeepCandidate, one), (DocumentSelection, whole)):
        name = kind.name
        run = runs_of(lambda kind=kind: selection_cases(kind, 3.0), pairs=120)  # type: ignore[misc]
        yield f"http-{name.replace('_', '-')}", f"/embed/sentdp, {name}", "pure", adjacency, run


def _other_audits() -> Iterator[tuple[str, str, str, str, Callable[[Scale], Found]]]:
    """As `_sentence_audits`, of the other endpoints."""
    slots = runs_of(lambda: fill_cases("slot", 12.0), runs=10_240, pairs=8, pilot=512)
    filled = runs_of(lambda: fill_cases("document", 12.0), runs=10_240, pairs=4, pilot=512)
    laplace = runs_of(lambda: laplace_cases(1.0), runs=50_000, pairs=4)
    words = runs_of(lambda: word_cases(9.0), runs=20_480, pairs=200)
    texts = runs_of(lambda: text_vector_cases(3.0))
    yield "http-text-vectors", "/embed/vector, texts", "pure", ADJACENCY_ALL, texts
    yield "http-laplace", "/embed/vector, laplace as JSON", "metric", "any two vectors", laplace
    yield "http-words", "/sanitize, metric_dp", "metric", "any two words", words
    yield "http-fill-slot", "/sanitize, dp, slot", "pure", pricing.PLACE.split(",")[0], slots
    yield "http-fill-document", "/sanitize, dp, document", "pure", pricing.ANY, filled


def audits() -> tuple[Audit, ...]:
    return tuple(Audit(name, "over HTTP", *rest) for name, *rest in (*_sentence_audits(), *_other_audits()))

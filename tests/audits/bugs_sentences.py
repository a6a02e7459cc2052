"""Planted bugs of the sentence-level mechanisms and of their samplers; each names the step of the proof it breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from audits.bug import Bug, Detector, check, over_claim
from audits.checks import (
    draws_follow_the_laws,
    every_outcome_can_occur,
    forks_have_streams_of_their_own,
    sentences_ignore_their_company,
)
from audits.kit import Case, FloatArray, Scale, audit, learned
from audits.sentences import DIMENSION, EPSILON, candidate_cases, code_case, code_cases, code_pack, selection_cases
from pack_kit import make_pack

from core.amounts import NANO
from core.mechanisms import (
    clipped_cosine,
    depth,
    discrete_noise,
    document_selection,
    integer_vectors,
    sampling,
    sentence_codes,
)
from core.mechanisms.clipped_cosine import ClippedCosine
from core.mechanisms.depth import DeepCandidate
from core.mechanisms.document_selection import DocumentSelection
from core.mechanisms.pack_facts import CodeNoise
from core.mechanisms.sampling import IntArray
from core.mechanisms.sentence_codes import SentenceCodes


def _detector(name: str, cases: Callable[[], Iterator[Case]], pairs: int = 400, runs: int = 40_000) -> Detector:
    return over_claim(name, lambda: audit(cases(), Scale(runs, pairs, 10_000), batch=20_000))


RESPONSES = _detector("audit of responses", lambda: code_cases(CodeNoise.RESPONSES, 1), 100)
COUNTS = _detector("audit of counts", lambda: code_cases(CodeNoise.COUNTS, 2), 200)
COSINE = _detector("audit of clipped_cosine", lambda: candidate_cases(ClippedCosine, 3))
DEPTH = _detector("audit of deep_candidate", lambda: candidate_cases(DeepCandidate, 4), 300, 20_000)
SELECTION = _detector("audit of document_selection", lambda: selection_cases(5))

_E = np.eye(DIMENSION, dtype=np.float32)


def _codes(noise: CodeNoise) -> SentenceCodes:
    return SentenceCodes(code_pack(noise, np.stack([_E[0], -_E[0], _E[1]])))


def last_of_batch() -> Iterator[Case]:
    """The release of the last document of a batch of three."""
    mechanism = _codes(CodeNoise.RESPONSES)
    pair = (_E[:1], -_E[:1])

    def draw(side: int, runs: int) -> FloatArray:
        document = torch.from_numpy(pair[side])
        released = [mechanism.release([document] * 3, [round(EPSILON * NANO)] * 3)[-1] for _ in range(runs)]
        return np.asarray(np.rint(np.stack(released)[:, 0]))

    yield Case("the last document of a batch", EPSILON, draw)


def planted_companion(noise: CodeNoise) -> Iterator[Case]:
    """The attacker's own document in the batch: does the other one come out alike?"""
    mechanism = _codes(noise)
    pair = (np.concatenate([_E[:1], -_E[:1]]), np.concatenate([-_E[:1], -_E[:1]]))

    def draw(side: int, runs: int) -> FloatArray:
        documents = [torch.from_numpy(pair[side]), torch.from_numpy(pair[0])]
        alike = []
        for _ in range(runs // 50):
            released = mechanism.release(documents * 50, [round(EPSILON * NANO)] * 100)
            alike.append((released[::2] == released[1::2]).all(axis=1))
        return np.concatenate(alike).astype(np.float64)

    yield Case("beside a document of the attacker's", EPSILON, draw)


def equal_sentences() -> Iterator[Case]:
    """Two sentences that differ against two that are equal: do their responses differ?"""
    mechanism = _codes(CodeNoise.RESPONSES)
    pair = (np.concatenate([_E[:1], -_E[:1]]), np.concatenate([_E[:1], _E[:1]]))

    def draw(side: int, runs: int) -> FloatArray:
        document = torch.from_numpy(pair[side])
        released = mechanism.release([document] * runs, [round(EPSILON * NANO)] * runs)
        return np.asarray((released.max(axis=1) < 0.9).astype(np.float64))

    yield Case("two sentences, equal or not", EPSILON, draw)


def spread_documents(third: float = -1.0) -> Iterator[Case]:
    """Three sentences, of which the third is replaced by one in the same direction or the opposite one."""
    mechanism = _codes(CodeNoise.COUNTS)
    pair = (np.repeat(_E[:1], 3, axis=0), np.concatenate([_E[:1], _E[:1], np.float32(third) * _E[:1]]))
    histograms = [np.bincount(mechanism.codes([torch.from_numpy(each)], 3), minlength=3) for each in pair]
    yield code_case(mechanism, pair, [], histograms, EPSILON, "three sentences")


def chosen(mechanism: ClippedCosine | DocumentSelection, pair: tuple[FloatArray, FloatArray]) -> Iterator[Case]:
    """Which candidate comes out, both ways; the event is learnt from pilot runs."""
    for first, second in (pair, pair[::-1]):
        documents = [torch.from_numpy(each) for each in (first, second)]

        def draw(side: int, runs: int, documents: list[torch.Tensor] = documents) -> IntArray:
            return mechanism.select([documents[side]] * runs, [round(EPSILON * NANO)] * runs)

        yield learned(draw, len(mechanism.pack.candidates), EPSILON, "fixed candidates", pilot=10_000)


def two_candidates() -> Iterator[Case]:
    return chosen(ClippedCosine(make_pack(np.stack([_E[0], -_E[0]]))), (_E[:1], -_E[:1]))


def two_sides() -> Iterator[Case]:
    """Eight candidates on one side and thirteen on the other, and documents of unequal length."""
    points = np.concatenate([np.repeat(_E[:1], 8, axis=0), np.repeat(-_E[:1], 13, axis=0)])
    return chosen(DocumentSelection(make_pack(points)), (_E[:1], np.repeat(-_E[:1], 5, axis=0)))


ORDER = over_claim("audit of two candidates", lambda: audit(two_candidates(), Scale(20_000, 2, 5_000)))
SIDES = over_claim("audit of candidates on two sides", lambda: audit(two_sides(), Scale(40_000, 2, 10_000)))
MEAN = over_claim(
    "audit of sentences of unequal length", lambda: audit(spread_documents(3.0), Scale(40_000, 1, 10_000))
)
LAST = over_claim("audit of a batch's last document", lambda: audit(last_of_batch(), Scale(600, 1, 300)))
COMPANION = over_claim(
    "audit beside a planted document", lambda: audit(planted_companion(CodeNoise.COUNTS), Scale(5_000, 1, 2_000))
)
EQUALS = over_claim("audit of equal sentences", lambda: audit(equal_sentences(), Scale(20_000, 1, 5_000)))
SPREAD = over_claim("audit of sentences on one code", lambda: audit(spread_documents(), Scale(40_000, 1, 10_000)))
COMPANY = check("a document's law ignores its company", sentences_ignore_their_company)
LAWS = check("draws follow their laws (chi-square)", draws_follow_the_laws)
REACH = check("every outcome of positive probability can occur", every_outcome_can_occur)
FORKS = check("forked processes draw apart", forks_have_streams_of_their_own)


def _swap(module: object, name: str, make: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Replace `module.name` by what `make` makes of it."""
    return lambda patch: patch.setattr(module, name, make(getattr(module, name)))


def _with(**changes: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function with some of its keyword arguments changed."""

    def make(real: Any) -> Any:
        def broken(*args: Any, **given: Any) -> Any:
            return real(
                *args, **{key: changes[key](value) if key in changes else value for key, value in given.items()}
            )

        return broken

    return make


DOUBLE = _with(epsilon_nano=lambda nano: 2 * nano)
HALF_SENSITIVITY = _with(sensitivity=lambda value: value // 2)


def _first_heads(_: Any) -> Any:
    def broken(scores: Any, *, epsilon_nano: int, sensitivity: int) -> int:
        gaps = sampling._gaps(scores, epsilon_nano, sensitivity)
        return int(np.argmax(sampling._coins(gaps, epsilon_nano, 2 * sensitivity * NANO)))

    return broken


def _one_round(_: Any) -> Any:
    def broken(scores: Any, *, epsilon_nano: int, sensitivity: int) -> int:
        gaps = sampling._gaps(scores, epsilon_nano, sensitivity)
        proposals = sampling.uniform_indices(len(gaps), len(gaps))
        accepted = sampling._coins(gaps[proposals], epsilon_nano, 2 * sensitivity * NANO)
        return int(proposals[int(np.argmax(accepted))])

    return broken


def _float_softmax(_: Any) -> Any:
    def broken(scores: Any, *, epsilon_nano: int, sensitivity: int) -> int:
        weights = np.exp((scores - scores.max()).astype(np.float32) * (epsilon_nano / NANO / 2 / sensitivity))
        return int(
            np.searchsorted(np.cumsum(weights), sampling.random_words(1)[0] / 2.0**32 * weights.sum(), side="right")
        )

    return broken


def _seeded_words(_: Any) -> Any:
    generator = np.random.default_rng(7)
    return lambda count: generator.integers(0, 1 << 32, size=count, dtype=np.uint32)


def _biased_indices(_: Any) -> Any:
    return lambda count, bound: (sampling.random_words(count).astype(np.uint64) % np.uint64(bound)).astype(np.int64)


def _biased_below(_: Any) -> Any:
    return lambda bound: int(sampling.random_words(1)[0]) % (1 << (bound - 1).bit_length()) % bound


def _undecided_is_no(real: Any) -> Any:
    return lambda words, x: (real(words, x)[0], np.zeros(len(words), dtype=bool))


def _keeps_the_last(real: Any) -> Any:
    def broken(codes: Any, **given: Any) -> Any:
        return np.append(real(codes[:-1], **given), codes[-1:])

    return broken


def _others_with_the_own(_: Any) -> Any:
    def broken(codes: Any, *, size: int, epsilon_nano: int) -> Any:
        drawn = discrete_noise.subset_selection(codes[:, None], size=size, epsilon_nano=epsilon_nano)
        return np.where(drawn == codes, codes, sampling.uniform_indices(len(codes), size))

    return broken


def _one_response_a_code(real: Any) -> Any:
    """Equal codes share a draw, as a cache would make them."""

    def broken(codes: Any, **given: Any) -> Any:
        pairs = codes.reshape(-1, 2) if len(codes) % 2 == 0 else codes.reshape(-1, 1)
        drawn = real(codes, **given).reshape(pairs.shape)
        alike = pairs == pairs[:, :1]
        return np.where(alike, drawn[:, :1], drawn).reshape(-1)

    return broken


def _one_sided(real: Any) -> Any:
    return lambda count, **given: np.abs(real(count, **given))


def _without_one_bin(real: Any) -> Any:
    def broken(count: int, **given: Any) -> Any:
        noise = real(count, **given)
        noise[1::3] = 0
        return noise

    return broken


def _once_a_document(real: Any) -> Any:
    return lambda count, **given: np.repeat(real(-(-count // 3), **given), 3)[:count]


def _once_a_batch(real: Any) -> Any:
    return lambda count, **given: np.resize(real(3, **given), count)


def _from_the_documents_mean(real: Any) -> Any:
    return lambda self, rows, size: real(self, [each - each.mean(dim=0) for each in rows], size)


def _unclipped_above(_: Any) -> Any:
    def broken(self: Any, rows: Any, levels: Any) -> Any:
        return self._codes.dots(integer_vectors.direction_codes(rows, self._centre)).clamp_(min=0)

    return broken


def _unclipped_below(_: Any) -> Any:
    def broken(self: Any, rows: Any, levels: Any) -> Any:
        dots = self._codes.dots(integer_vectors.direction_codes(rows, self._centre))
        return torch.maximum(torch.minimum(dots, levels[:, None]), -levels[:, None])

    return broken


def _means_of_one_fewer(real: Any) -> Any:
    """Means over k sentences, against the sensitivity of means over k + 1."""
    return lambda self, documents, epsilons: [
        row * (len(document) + 1) // len(document)
        for row, document in zip(real(self, documents, epsilons), documents, strict=True)
    ]


def _centre_of_the_batch(real: Any) -> Any:
    def broken(self: Any, rows: Any, levels: Any) -> Any:
        return real(self, rows - torch.nan_to_num(rows).mean(dim=0), levels)

    return broken


def _best_five(real: Any) -> Any:
    """The draw is among the highest scores alone."""

    def broken(scores: Any, **given: Any) -> int:
        best = np.argsort(-scores, kind="stable")[: max(1, len(scores) // 2)]
        return int(best[real(scores[best], **given)])

    return broken


def _sum_of_directions(_: Any) -> Any:
    return staticmethod(lambda unbalance: unbalance.sum(dim=0))


def _scaled_by_the_batch(real: Any) -> Any:
    def broken(self: Any, vectors: Any, count: int) -> Any:
        largest = torch.nan_to_num(vectors).abs().max().clamp(min=1e-6)
        return real(self, vectors / largest, count)

    return broken


def _nearest_member(real: Any) -> Any:
    """A member comes out, but always the first."""

    def broken(subsets: Any, *, size: int, epsilon_nano: int) -> Any:
        drawn = real(subsets, size=size, epsilon_nano=epsilon_nano)
        return np.where((subsets == drawn[:, None]).any(axis=1), subsets[:, 0], drawn)

    return broken


def _all_on_its_side(real: Any) -> Any:
    """As many members as lie on the document's side."""

    def broken(self: Any, documents: Any, members: int) -> Any:
        near = int((self._codes.dots(integer_vectors.codes_of(self._means(documents[-1:]))) > 0).sum())
        return real(self, documents, min(max(1, near), self.pack.info.candidates - 1))

    return broken


def _one_mean(real: Any) -> Any:
    def broken(self: Any, documents: Any) -> Any:
        means = real(self, documents)
        return ((means + means.mean(dim=0)) / 2).round()

    return broken


def _sixteen_bits(real: Any) -> Any:
    return lambda self, rows: real(self, rows).to(torch.bfloat16).to(torch.int32)


_SAMPLING, _NOISE = "samplers", "discrete noise"

BUGS: tuple[Bug, ...] = (
    Bug(
        "no factor 2 in permute-and-flip",
        _SAMPLING,
        "acceptance exp(eps (u - max) / (2 sensitivity))",
        _swap(clipped_cosine, "permute_and_flip", DOUBLE),
        COSINE,
    ),
    Bug(
        "the first heads in order, not a uniform one",
        _SAMPLING,
        "the permutation is uniform",
        _swap(clipped_cosine, "permute_and_flip", _first_heads),
        ORDER,
    ),
    Bug(
        "no factor 2 in the exponential mechanism",
        _SAMPLING,
        "weights exp(eps u / (2 sensitivity))",
        _swap(depth, "exponential_mechanism", DOUBLE),
        DEPTH,
    ),
    Bug(
        "rejection stops after a round",
        _SAMPLING,
        "proposals until one is accepted",
        _swap(sampling, "exponential_mechanism", _one_round),
        LAWS,
    ),
    Bug(
        "a float softmax",
        _SAMPLING,
        "every outcome of positive probability can occur",
        _swap(sampling, "exponential_mechanism", _float_softmax),
        REACH,
    ),
    Bug(
        "undecided coins fall on tails",
        _SAMPLING,
        "the exact coin extends U",
        _swap(sampling, "_decide", _undecided_is_no),
        REACH,
    ),
    Bug(
        "remainders without rejection, arrays",
        _SAMPLING,
        "a word is used iff it lies below a multiple of the bound",
        _swap(sampling, "uniform_indices", _biased_indices),
        LAWS,
    ),
    Bug(
        "remainders without rejection, one number",
        _SAMPLING,
        "a uniform integer by rejection",
        _swap(sampling, "uniform_below", _biased_below),
        LAWS,
    ),
    Bug(
        "a seeded generator for words",
        _SAMPLING,
        "randomness keeps no state, so forked workers never share it",
        _swap(sampling, "random_words", _seeded_words),
        FORKS,
    ),
    Bug(
        "responses at twice the epsilon",
        _NOISE,
        "stays with probability e^eps / (e^eps + N - 1)",
        _swap(sentence_codes, "randomised_response", DOUBLE),
        RESPONSES,
    ),
    Bug(
        "one member too few",
        _NOISE,
        "the denominator n e^eps + N - n",
        _swap(
            discrete_noise,
            "_member_threshold",
            lambda real: lambda size, n, *rest: real(size, min(n + 1, size - 1), *rest),
        ),
        SIDES,
    ),
    Bug(
        "the others hold the own code, too",
        _NOISE,
        "else one of the other N - 1 codes",
        _swap(sentence_codes, "randomised_response", _others_with_the_own),
        RESPONSES,
    ),
    Bug(
        "the batch's last response is the code",
        _NOISE,
        "every entry goes through the response",
        _swap(sentence_codes, "randomised_response", _keeps_the_last),
        LAST,
    ),
    Bug(
        "equal codes share a draw",
        _NOISE,
        "the other responses are independent",
        _swap(sentence_codes, "randomised_response", _one_response_a_code),
        EQUALS,
    ),
    Bug(
        "half the noise on counts",
        _NOISE,
        "P(z) proportional to exp(-eps |z| / 2)",
        _swap(sentence_codes, "two_sided_geometric", DOUBLE),
        COUNTS,
    ),
    Bug(
        "noise of one sign",
        _NOISE,
        "the difference of two geometric variables",
        _swap(sentence_codes, "two_sided_geometric", _one_sided),
        COUNTS,
    ),
    Bug(
        "one number of noise a document",
        _NOISE,
        "independent noise in each bin",
        _swap(sentence_codes, "two_sided_geometric", _once_a_document),
        SPREAD,
    ),
    Bug(
        "noise drawn once a batch",
        _NOISE,
        "each document's noise is its own",
        _swap(sentence_codes, "two_sided_geometric", _once_a_batch),
        COMPANION,
    ),
    Bug(
        "a bin without noise",
        "sentence_codes",
        "noise in each bin",
        _swap(sentence_codes, "two_sided_geometric", _without_one_bin),
        SPREAD,
    ),
    Bug(
        "sensitivity 1 of the histogram",
        "sentence_codes",
        "L1 sensitivity 2",
        lambda patch: patch.setattr(sentence_codes, "HISTOGRAM_SENSITIVITY", 1),
        COUNTS,
    ),
    Bug(
        "codes seen from the document's mean",
        "sentence_codes",
        "a code depends on that sentence alone",
        _swap(SentenceCodes, "codes", _from_the_documents_mean),
        MEAN,
    ),
    Bug(
        "half of G",
        "clipped_cosine",
        "sensitivity G",
        _swap(clipped_cosine, "permute_and_flip", HALF_SENSITIVITY),
        COSINE,
    ),
    Bug(
        "no clipping at G",
        "clipped_cosine",
        "q is an integer in 0..G",
        _swap(ClippedCosine, "contributions", _unclipped_above),
        COSINE,
    ),
    Bug(
        "no clipping at 0",
        "clipped_cosine",
        "q is an integer in 0..G",
        _swap(ClippedCosine, "contributions", _unclipped_below),
        COSINE,
    ),
    Bug(
        "means over k with the sensitivity over k + 1",
        "clipped_cosine",
        "replacing a sentence changes one term",
        _swap(ClippedCosine, "scores", _means_of_one_fewer),
        COSINE,
    ),
    Bug(
        "cosines from the batch's centre",
        "clipped_cosine",
        "q is a function of one sentence",
        _swap(ClippedCosine, "contributions", _centre_of_the_batch),
        COMPANY,
    ),
    Bug(
        "only the better half of the candidates",
        "clipped_cosine",
        "the candidates are public",
        _swap(clipped_cosine, "permute_and_flip", _best_five),
        COSINE,
    ),
    Bug(
        "sensitivity 1 of the depth",
        "deep_candidate",
        "|2 h - k| moves by at most 2",
        lambda patch: patch.setattr(depth, "SENSITIVITY", 1),
        DEPTH,
    ),
    Bug(
        "the sum over directions",
        "deep_candidate",
        "a maximum moves by no more than its arguments",
        _swap(DeepCandidate, "_over_directions", _sum_of_directions),
        DEPTH,
    ),
    Bug(
        "projections scaled by the batch",
        "deep_candidate",
        "a projection depends on one sentence",
        _swap(DeepCandidate, "_project", _scaled_by_the_batch),
        COMPANY,
    ),
    Bug(
        "selection at twice the epsilon",
        "document_selection",
        "a member has probability e^eps / (n e^eps + m - n)",
        _swap(document_selection, "subset_selection", DOUBLE),
        SELECTION,
    ),
    Bug(
        "always the subset's first member",
        "document_selection",
        "a uniform member",
        _swap(document_selection, "subset_selection", _nearest_member),
        SIDES,
    ),
    Bug(
        "as many members as lie near",
        "document_selection",
        "n is a function of m and epsilon alone",
        _swap(DocumentSelection, "subsets", _all_on_its_side),
        SIDES,
    ),
    Bug(
        "means drawn to the batch's mean",
        "document_selection",
        "the ranking is a function of that document alone",
        _swap(DocumentSelection, "_means", _one_mean),
        COMPANY,
    ),
    Bug(
        "products of 16 bits",
        "integer_vectors",
        "sums of bounded integers, exact in any order",
        _swap(integer_vectors.CodeMatrix, "dots", _sixteen_bits),
        COMPANY,
    ),
)

"""Planted bugs of the samplers; each names the step of the proof it breaks."""

from typing import Any

import numpy as np
from audits.bug import Bug
from audits.detect_sentences import (
    COMPANION,
    COSINE,
    COUNTS,
    DEPTH,
    DOUBLE,
    EQUALS,
    FORKS,
    LAST,
    LAWS,
    ORDER,
    REACH,
    RESPONSES,
    SIDES,
    SPREAD,
    swap,
)

from core.amounts import NANO
from core.mechanisms.samplers import discrete_noise, exact
from core.mechanisms.sentences import clipped_cosine, deep_candidate, sentence_codes


def _first_heads(_: Any) -> Any:
    def broken(scores: Any, *, epsilon_nano: int, sensitivity: int) -> int:
        gaps = exact._gaps(scores, epsilon_nano, sensitivity)
        return int(np.argmax(exact._coins(gaps, epsilon_nano, 2 * sensitivity * NANO)))

    return broken


def _one_round(_: Any) -> Any:
    def broken(scores: Any, *, epsilon_nano: int, sensitivity: int) -> int:
        gaps = exact._gaps(scores, epsilon_nano, sensitivity)
        proposals = exact.uniform_indices(len(gaps), len(gaps))
        accepted = exact._coins(gaps[proposals], epsilon_nano, 2 * sensitivity * NANO)
        return int(proposals[int(np.argmax(accepted))])

    return broken


def _float_softmax(_: Any) -> Any:
    def broken(scores: Any, *, epsilon_nano: int, sensitivity: int) -> int:
        weights = np.exp((scores - scores.max()).astype(np.float32) * (epsilon_nano / NANO / 2 / sensitivity))
        return int(
            np.searchsorted(np.cumsum(weights), exact.random_words(1)[0] / 2.0**32 * weights.sum(), side="right")
        )

    return broken


def _seeded_words(_: Any) -> Any:
    generator = np.random.default_rng(7)
    return lambda count: generator.integers(0, 1 << 32, size=count, dtype=np.uint32)


def _biased_indices(_: Any) -> Any:
    return lambda count, bound: (exact.random_words(count).astype(np.uint64) % np.uint64(bound)).astype(np.int64)


def _biased_below(_: Any) -> Any:
    return lambda bound: int(exact.random_words(1)[0]) % (1 << (bound - 1).bit_length()) % bound


def _undecided_is_no(real: Any) -> Any:
    return lambda words, x: (real(words, x)[0], np.zeros(len(words), dtype=bool))


def _keeps_the_last(real: Any) -> Any:
    def broken(codes: Any, **given: Any) -> Any:
        return np.append(real(codes[:-1], **given), codes[-1:])

    return broken


def _others_with_the_own(_: Any) -> Any:
    def broken(codes: Any, *, size: int, epsilon_nano: int) -> Any:
        drawn = discrete_noise.subset_selection(codes[:, None], size=size, epsilon_nano=epsilon_nano)
        return np.where(drawn == codes, codes, exact.uniform_indices(len(codes), size))

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


def _once_a_document(real: Any) -> Any:
    return lambda count, **given: np.repeat(real(-(-count // 3), **given), 3)[:count]


def _once_a_batch(real: Any) -> Any:
    return lambda count, **given: np.resize(real(3, **given), count)


_SAMPLING, _NOISE = "samplers", "discrete noise"

BUGS: tuple[Bug, ...] = (
    Bug(
        "no factor 2 in permute-and-flip",
        _SAMPLING,
        "acceptance exp(eps (u - max) / (2 sensitivity))",
        swap(clipped_cosine, "permute_and_flip", DOUBLE),
        COSINE,
    ),
    Bug(
        "the first heads in order, not a uniform one",
        _SAMPLING,
        "the permutation is uniform",
        swap(clipped_cosine, "permute_and_flip", _first_heads),
        ORDER,
    ),
    Bug(
        "no factor 2 in the exponential mechanism",
        _SAMPLING,
        "weights exp(eps u / (2 sensitivity))",
        swap(deep_candidate, "exponential_mechanism", DOUBLE),
        DEPTH,
    ),
    Bug(
        "rejection stops after a round",
        _SAMPLING,
        "proposals until one is accepted",
        swap(exact, "exponential_mechanism", _one_round),
        LAWS,
    ),
    Bug(
        "a float softmax",
        _SAMPLING,
        "every outcome of positive probability can occur",
        swap(exact, "exponential_mechanism", _float_softmax),
        REACH,
    ),
    Bug(
        "undecided coins fall on tails",
        _SAMPLING,
        "the exact coin extends U",
        swap(exact, "_decide", _undecided_is_no),
        REACH,
    ),
    Bug(
        "remainders without rejection, arrays",
        _SAMPLING,
        "a word is used iff it lies below a multiple of the bound",
        swap(exact, "uniform_indices", _biased_indices),
        LAWS,
    ),
    Bug(
        "remainders without rejection, one number",
        _SAMPLING,
        "a uniform integer by rejection",
        swap(exact, "uniform_below", _biased_below),
        LAWS,
    ),
    Bug(
        "a seeded generator for words",
        _SAMPLING,
        "randomness keeps no state, so forked workers never share it",
        swap(exact, "random_words", _seeded_words),
        FORKS,
    ),
    Bug(
        "responses at twice the epsilon",
        _NOISE,
        "stays with probability e^eps / (e^eps + N - 1)",
        swap(sentence_codes, "randomised_response", DOUBLE),
        RESPONSES,
    ),
    Bug(
        "one member too few",
        _NOISE,
        "the denominator n e^eps + N - n",
        swap(
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
        swap(sentence_codes, "randomised_response", _others_with_the_own),
        RESPONSES,
    ),
    Bug(
        "the batch's last response is the code",
        _NOISE,
        "every entry goes through the response",
        swap(sentence_codes, "randomised_response", _keeps_the_last),
        LAST,
    ),
    Bug(
        "equal codes share a draw",
        _NOISE,
        "the other responses are independent",
        swap(sentence_codes, "randomised_response", _one_response_a_code),
        EQUALS,
    ),
    Bug(
        "half the noise on counts",
        _NOISE,
        "P(z) proportional to exp(-eps |z| / 2)",
        swap(sentence_codes, "two_sided_geometric", DOUBLE),
        COUNTS,
    ),
    Bug(
        "noise of one sign",
        _NOISE,
        "the difference of two geometric variables",
        swap(sentence_codes, "two_sided_geometric", _one_sided),
        COUNTS,
    ),
    Bug(
        "one number of noise a document",
        _NOISE,
        "independent noise in each bin",
        swap(sentence_codes, "two_sided_geometric", _once_a_document),
        SPREAD,
    ),
    Bug(
        "noise drawn once a batch",
        _NOISE,
        "each document's noise is its own",
        swap(sentence_codes, "two_sided_geometric", _once_a_batch),
        COMPANION,
    ),
)

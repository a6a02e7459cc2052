"""Private routing: a route is a sentence's own, the choice and the release divide epsilon, and both are what the proofs
say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pack_kit import make_pack, make_routes, parameters_row

from core.mechanisms.sentences import routing
from core.mechanisms.sentences.domain_pack import CodeNoise, CodeTable
from core.mechanisms.sentences.registry import ROUTING_NANO_MAX, routing_share
from core.mechanisms.sentences.routing import RoutedCodes, Router
from core.mechanisms.sentences.sentence_codes import SentenceCodes

NANO = 10**9
DIMENSION = 16
PACKS = ("news", "reviews", "general")


def rows(sentences: int, seed: int) -> torch.Tensor:
    vectors = np.random.default_rng(seed).normal(size=(sentences, DIMENSION)).astype(np.float32)
    return torch.from_numpy(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def axes(*numbers: int) -> torch.Tensor:
    """A document whose sentences are these axes."""
    return torch.eye(DIMENSION)[list(numbers)]


def router(**fields: Any) -> Router:
    """Axes 0 and 1 belong to `news`, axis 2 to `reviews`, and axis 3 to `general`."""
    return Router(make_routes(np.eye(4, DIMENSION), [0, 0, 1, 2], PACKS, **fields))


def codes(value: float) -> SentenceCodes:
    """A mechanism that releases `value` in every coordinate, and its first code's noise in none."""
    pack = make_pack(np.eye(DIMENSION), parameters=(parameters_row(0.5, 1.0, 1, 1, 1),))
    table = CodeTable(
        CodeNoise.RESPONSES, np.zeros((2, DIMENSION), dtype=np.float32), np.full(DIMENSION, value, dtype=np.float32)
    )
    return SentenceCodes(replace(pack, code_tables=(table,)))


def routed(**fields: Any) -> RoutedCodes:
    return RoutedCodes(router(**fields), {name: codes(float(i)) for i, name in enumerate(PACKS)})


def test_choice_and_release_share_the_epsilon() -> None:
    for epsilon in [2, 3, 4, 5, 10**6, NANO, 4 * NANO, 4 * NANO + 1, 10 * NANO, 4_000_000 * NANO]:
        share = routing_share(epsilon)
        assert 1 <= share < epsilon
        assert share <= ROUTING_NANO_MAX
        assert share == ROUTING_NANO_MAX or share <= max(1, epsilon // 4)


def test_an_epsilon_that_cannot_be_divided_is_refused() -> None:
    for epsilon in (1, 0, -3):
        with pytest.raises(ValueError, match="at least 2e-09"):
            routing_share(epsilon)


def test_votes_are_counts_of_routes() -> None:
    documents = [axes(0, 1, 2), axes(3), axes(2, 2, 2, 0)]
    assert router().votes(documents).tolist() == [[2, 1, 0], [0, 0, 1], [1, 3, 0]]
    assert router().sentence_routes(documents).tolist() == [0, 0, 1, 2, 1, 1, 1, 0]
    assert router().votes([]).shape == (0, 3)


def test_a_route_is_that_of_the_nearest_centroid_whatever_stands_beside_it() -> None:
    centroids = rows(50, 1).numpy()
    owners = np.random.default_rng(2).integers(3, size=50)
    own = Router(make_routes(centroids, owners.tolist(), PACKS))
    together = rows(3_000, 5)
    routes = own.sentence_routes([together])
    for i in (0, 1, 17, 1_023, 1_024, 2_999):
        assert own.sentence_routes([together[i : i + 1]])[0] == routes[i]
    order = np.random.default_rng(9).permutation(3_000)
    assert np.array_equal(own.sentence_routes([together[torch.from_numpy(order)]]), routes[order])
    scaled = np.clip(np.round(together.numpy() * 104.0), -127, 127)  # code_scale(16)
    space = own.routes.space
    places = np.clip(np.round((scaled @ space.directions.T).astype(np.float32) * space.factor), -127, 127)
    distance = np.square(places[:, None, :] - own.routes.centroids[None].astype(np.int64)).sum(axis=2)
    assert np.array_equal(routes, owners[distance.argmin(axis=1)])
    assert own.self_check()


def test_every_vector_has_a_route() -> None:
    odd = rows(5, 3)
    odd[0], odd[1], odd[2, 3], odd[3, 5] = 0.0, 1e30, float("nan"), float("-inf")
    assert set(router().sentence_routes([odd])) <= {0, 1, 2}
    assert router().sentence_routes([odd])[4] == router().sentence_routes([odd[4:]])[0]


def test_one_replaced_sentence_moves_no_score_by_more_than_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[np.ndarray, int]] = []

    def watched(scores: np.ndarray, *, epsilon_nano: int, sensitivity: int) -> int:
        seen.append((scores, sensitivity))
        return 0

    monkeypatch.setattr(routing, "permute_and_flip", watched)
    own = router(default_percent=30)
    for seed in range(50):
        before, after = rows(9, seed), rows(9, seed)
        after[seed % 9] = rows(1, 1_000 + seed)[0]
        own.choose([before, after], [NANO, NANO])
        (first, level), (second, _) = seen[-2:]
        assert np.abs(first - second).max() <= level == 1
        assert first.sum() == second.sum() == 9 + 2


def test_the_further_votes_of_the_default_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    monkeypatch.setattr(routing, "permute_and_flip", lambda scores, **_: seen.append(scores.tolist()) or 0)
    router(default="general", default_percent=50).choose([axes(0, 1, 2), axes(3, 3, 3, 3)], [NANO, NANO])
    assert seen == [[2, 1, 1], [0, 0, 6]]


def test_a_choice_follows_its_law() -> None:
    """Frequencies within 6 standard deviations of permute-and-flip's and randomised response's law."""
    runs = 10_000
    own = router()
    chosen = own.choose([axes(0, 0, 2)] * runs, [2 * NANO] * runs)
    # coins of gaps 1 and 2 at epsilon 2; the first pack's always shows heads
    second, third = np.exp(-1.0), np.exp(-2.0)
    law = (1 - second) * (1 - third) + (second + third - 2 * second * third) / 2 + second * third / 3
    assert abs((chosen == 0).mean() - law) < 6 * 0.5 / np.sqrt(runs)
    single = own.choose([axes(2)] * runs, [2 * NANO] * runs)
    assert abs((single == 1).mean() - np.exp(2) / (np.exp(2) + 2)) < 6 * 0.5 / np.sqrt(runs)


def test_a_pack_is_chosen_at_the_share_and_releases_at_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[tuple[str, int]] = []
    flip, respond = routing.permute_and_flip, routing.randomised_response

    def flipped(scores: np.ndarray, **given: int) -> int:
        spent.append(("choice", given["epsilon_nano"]))
        return flip(scores, **given)

    def responded(routes: np.ndarray, **given: int) -> np.ndarray:
        spent.append(("choice", given["epsilon_nano"]))
        return respond(routes, **given)

    def released(self: SentenceCodes, documents: list[torch.Tensor], epsilons: list[int]) -> np.ndarray:
        spent.extend(("release", epsilon) for epsilon in epsilons)
        return np.zeros((len(documents), DIMENSION), dtype=np.float32)

    monkeypatch.setattr(routing, "permute_and_flip", flipped)
    monkeypatch.setattr(routing, "randomised_response", responded)
    monkeypatch.setattr(SentenceCodes, "release", released)
    epsilons = [2, NANO, 10 * NANO]
    routed().release([axes(0, 1), axes(0), axes(2, 2, 3)], epsilons)
    assert sorted(spent) == sorted(
        (step, part)
        for step, parts in {"choice": (1, NANO // 4, NANO), "release": (1, 3 * NANO // 4, 9 * NANO)}.items()
        for part in parts
    )


def test_a_document_of_too_few_sentences_gets_the_default_pack_at_the_whole_epsilon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent: list[int] = []
    release = SentenceCodes.release

    def released(self: SentenceCodes, documents: list[torch.Tensor], epsilons: list[int]) -> np.ndarray:
        spent.extend(epsilons)
        return release(self, documents, epsilons)

    monkeypatch.setattr(SentenceCodes, "release", released)
    own = routed(default="general", evidence_min=4)
    _, chosen = own.release([axes(0, 0, 0), axes(0)], [10 * NANO, 40 * NANO])  # a share of 1 for each
    assert chosen == ("general", "general")
    assert spent == [10 * NANO, 40 * NANO]
    spent.clear()
    own.release([axes(*[0] * 15), axes(*[0] * 16)], [NANO, NANO])  # a share of a quarter
    assert sorted(spent) == [3 * NANO // 4, NANO]


def test_each_document_is_released_with_the_pack_that_is_named() -> None:
    own = routed()
    documents = [axes(*[number] * 60) for number in (0, 2, 3, 1)] * 10  # 60 votes: the choice is all but certain
    vectors, chosen = own.release(documents, [40 * NANO] * 40)
    assert chosen == ("news", "reviews", "general", "news") * 10
    assert np.array_equal(vectors[:, 0], [PACKS.index(name) for name in chosen])
    assert vectors.dtype == np.float32
    assert own.self_check()
    nothing, none = own.release([], [])
    assert nothing.shape == (0, DIMENSION)
    assert none == ()


def test_arguments_are_checked_before_anything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("drawn")

    own = routed()
    monkeypatch.setattr(routing, "permute_and_flip", forbidden)
    monkeypatch.setattr(routing, "randomised_response", forbidden)
    for documents, epsilons in (
        ([axes(0)], [NANO, NANO]), ([axes(0), axes(1)], [NANO, 1]), ([axes(0)], [0]), ([axes(0)[:0]], [NANO]),
        ([torch.zeros(1, 3)], [NANO]), ([torch.zeros(4_097, DIMENSION)], [NANO]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"document|epsilon"):
            own.release(documents, epsilons)


def test_routes_without_their_packs_are_refused() -> None:
    with pytest.raises(ValueError, match="missing"):
        RoutedCodes(router(), {"news": codes(0), "general": codes(1)})

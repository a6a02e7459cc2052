"""The neighbours that the playground shows are those of the shipped encoder and pack."""

import json
from typing import Any

import pytest

from training.neighbours import DRAWS, EPSILONS, FILE, SHOWN, with_neighbours


def test_the_file_is_what_the_encoder_and_the_pack_give() -> None:
    stored = json.loads(FILE.read_text())
    made = with_neighbours(stored)
    assert (stored["epsilons"], len(set(stored["public"]))) == (list(EPSILONS), len(stored["public"]))
    for kept, fresh in zip(stored["samples"], made["samples"], strict=True):
        assert _about(kept["without"]) == fresh["without"]
        assert [[len(draw) for draw in draws] for draws in kept["drawn"]] == [[SHOWN] * DRAWS] * len(EPSILONS)
        # at 25 the noise changes one code in ten million, so that two draws are the same
        assert _about(kept["drawn"][-1][0]) == fresh["drawn"][-1][0]
        assert len({str(draw) for draw in kept["drawn"][0]}) > 1


def _about(neighbours: list[list[int]]) -> list[Any]:
    return [[place, pytest.approx(percent, abs=1)] for place, percent in neighbours]

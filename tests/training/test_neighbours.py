"""The neighbours that the playground shows are those of the shipped encoder and pack."""

import json

from training.neighbours import DRAWS, EPSILONS, FILE, SHOWN, with_neighbours


def test_the_file_is_what_the_encoder_and_the_pack_give() -> None:
    stored = json.loads(FILE.read_text())
    made = with_neighbours(stored)
    assert (stored["epsilons"], len(set(stored["public"]))) == (list(EPSILONS), len(stored["public"]))
    for kept, fresh in zip(stored["samples"], made["samples"], strict=True):
        assert _are_near(kept["without"], fresh["without"])
        assert [[len(draw) for draw in draws] for draws in kept["drawn"]] == [[SHOWN] * DRAWS] * len(EPSILONS)
        # at 25 the noise changes one code in ten million, so that two draws are the same
        assert _are_near(kept["drawn"][-1][0], fresh["drawn"][-1][0])
        assert len({str(draw) for draw in kept["drawn"][0]}) > 1


def _are_near(one: list[list[int]], other: list[list[int]]) -> bool:
    """Whether they are the same but for rounding, which may exchange the last of them."""
    first, second = ({row[0]: row[1] for row in each} for each in (one, other))
    same = first.keys() & second.keys()
    return len(same) >= SHOWN - 1 and all(abs(first[place] - second[place]) <= 1 for place in same)

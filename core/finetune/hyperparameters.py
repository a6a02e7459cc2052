"""The hyperparameters of a training beside its plan. They are public, and the guarantee does not depend on them."""

from __future__ import annotations

from dataclasses import dataclass

RANK, RANK_MAX = 8, 64
PIECES_MIN, PIECES, PIECES_MAX = 8, 128, 512


@dataclass(frozen=True)
class Hyperparameters:
    """`rank`: of adapters or carriers; `full` has none. `pieces_max`: the number of word pieces read of a text,
    including the special ones. `learning_rate`: for Adam on the encoder's part; None selects the method's default."""

    rank: int = RANK
    pieces_max: int = PIECES
    learning_rate: float | None = None

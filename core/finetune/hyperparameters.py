"""What a caller may set of a training beside its plan: public choices, on which the guarantee does not depend."""

from __future__ import annotations

from dataclasses import dataclass

RANK, RANK_MAX = 8, 64
PIECES_MIN, PIECES, PIECES_MAX = 8, 128, 512


@dataclass(frozen=True)
class Hyperparameters:
    """`rank`: of adapters or carriers; `full` has none. `pieces_max`: word pieces that are read of a text, the special
    ones included. `learning_rate`: of Adam for the encoder's part, the method's own by default."""

    rank: int = RANK
    pieces_max: int = PIECES
    learning_rate: float | None = None

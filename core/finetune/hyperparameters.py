"""The hyperparameters of a training beside its plan. They are public, and the guarantee does not depend on them.

A job carries them as one object from the request to the training, the artifact, the card and the result. A new one is a
field of `Hyperparameters`, a field of the request (`service.finetune.schemas`) and its use in `gpu_workers.finetune`.
"""

from __future__ import annotations

from dataclasses import dataclass

RANK, RANK_MAX = 8, 64
PIECES_MIN, PIECES, PIECES_MAX = 8, 128, 512


@dataclass(frozen=True)
class Hyperparameters:
    """Every field has a default, which is the value of artifacts and jobs from before the field existed.

    rank: of adapters or carriers. `full` has none, which artifacts show as 0.
    pieces_max: the number of word pieces read of a text, including the special ones.
    learning_rate: for Adam on the encoder's part; None selects the method's default, which artifacts show.
    weight_decay: each step first shrinks every trained weight by this times the learning rate (decoupled, as in AdamW).
        It acts on weights, which are a function of released gradients, and on no row: post-processing.
    """

    rank: int = RANK
    pieces_max: int = PIECES
    learning_rate: float | None = None
    weight_decay: float = 0.0

"""Fill `dp`: every slot is drawn from the model's fixed public candidates, under differential privacy.

One draw is `token_selection.select`. It costs epsilon for replacing the slot's own original by anything else, if the
model never reads that original. It does not: `core.text.fill_left_to_right` passes it the kept text, the words released
at slots to the left, and masks at slots to the right. So an original affects its own draw only, and later draws depend
on that draw's outcome, which is post-processing. This holds for all documents of a batch together: other documents may
change the last digits of the model's numbers, but no original of any document is among the model's inputs.

* scope `slot`. A slot is a masked region, whatever its content, or with the technique `all` a word. Each draw has eps.
  Guarantee: eps for replacing the content of one slot by anything else, given the mask pattern and the kept text, which
  have no protection. A document costs eps whatever its number of slots. Replacing two slots at once costs 2 eps.
* scope `document`. Every word is a slot; punctuation, case and line breaks are dropped first. Each of the n draws has
  eps / n. Guarantee: eps for replacing the whole document by any other of as many words: the draws compose by sum.

The original has the full score. The model's scores give the other candidates up to half of it. If the original is no
candidate, the model's scores alone decide.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np

from core.mechanisms.words.pricing import slot_epsilon_nano
from core.mechanisms.words.token_selection import scores, select
from core.text.fill_left_to_right import Scored
from core.text.infill_model import Candidates, FloatArray
from core.text.policy import Mask, MaskPolicy
from core.text.sanitize import Inspected

CLIP = 10.0  # logits: a candidate this far below the model's best scores 0


def slots_of(found: Inspected, policy: MaskPolicy) -> Inspected:
    """Return the slots of a result of `core.text.replace_words.inspect_words`, as masks of one type.

    One type, because a type would reveal information. There are at most as many slots as tokens, so counting a text's
    tokens before it is charged suffices to know that it can be filled.
    """
    if not policy.whole:
        return replace(found, masks=_one_a_token(found))
    return replace(
        found, masks=[replace(mask, start=start, end=end) for mask in found.masks[:1] for start, end in found.tokens]
    )


def _one_a_token(found: Inspected) -> list[Mask]:
    """Return the masks, joining those that share a token. Each contains a letter or digit, hence a part of a token."""
    starts = [token.start for token in found.tokens]
    joined: list[Mask] = []
    for mask in found.masks:
        if joined:
            last = joined[-1]
            before = bisect_left(starts, last.end) - 1  # the last token that begins before the mask's end
            if before >= 0 and found.tokens[before].end > mask.start:
                joined[-1] = replace(last, end=mask.end)
                continue
        joined.append(mask)
    return joined


def dp_draws(found: Inspected, epsilon_nano: int, candidates: Candidates, *, scope: str) -> Scored:
    """Return a draw for each slot of `slots_of`.

    Units: epsilon in nano, for the whole text. A remainder of the division among slots is not spent. `Scored.choose`
    raises ValueError for logits that are not finite.
    """
    own_nano = slot_epsilon_nano(epsilon_nano, scope=scope, slots=len(found.masks))

    def choose(place: int, row: FloatArray) -> str:
        mask = found.masks[place]
        fitting = np.right_shift(scores(row[None], clip=CLIP)[0], 1)
        own = candidates.place(found.text[mask.start : mask.end])
        return candidates.words[select(fitting, own, epsilon_nano=own_nano)]

    return Scored(choose)

"""What recognisers found in a text, as a whole or in its windows (`core.text.windows`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.errors import RecogniserFailed
from core.text import mask_entity, mask_tagged
from core.text.mask_tagged import Tagged
from core.text.own_recognisers import finds as own_finds
from core.text.own_recognisers.finds import OwnFinds, OwnRecognised
from core.text.policy import Mask, MaskPolicy
from core.text.recogniser import Hits


@dataclass(frozen=True)
class WindowFinds:
    """The finds in one window: `hits` of the patterns (`mask_entity.search`), `tagged`, if a tagger read it, and `own`
    of the policy's own recognisers."""

    hits: tuple[Hits, ...]
    tagged: Tagged | None = field(repr=False)
    own: OwnFinds = ()


@dataclass(frozen=True)
class Recognised:
    """The finds in a whole text: the masks of `patterns`, None if they have not run, the results of a tagger, and those
    of the policy's own recognisers, None if it has none. `hits`: those that the masks of `patterns` come from, for an
    explanation."""

    patterns: Sequence[Mask] | None
    tagged: Tagged | None = field(repr=False)
    hits: Sequence[mask_entity.Joined] = field(default=(), repr=False, compare=False)
    own: OwnRecognised | None = None


NOT_RECOGNISED = Recognised(None, None)


def join(text: str, policy: MaskPolicy, finds: Sequence[WindowFinds]) -> Recognised:
    """Return what was found in `text`, from the finds in each of its windows, in order.

    Raises RecogniserFailed if the finds are not those of the windows of this text.
    """
    tagged = [each.tagged for each in finds if each.tagged is not None]
    if tagged and len(tagged) != len(finds):
        raise RecogniserFailed
    hits = mask_entity.join(text, policy, [each.hits for each in finds])
    return Recognised(
        mask_entity.masks_of(text, hits),
        mask_tagged.join(text, tagged) if tagged else None,
        hits,
        own_finds.join(text, policy, [each.own for each in finds]) if policy.own else None,
    )

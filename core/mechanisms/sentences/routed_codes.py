"""`sentence_codes` with a domain pack that is chosen for each document: a private choice, then a private release.

Guarantee: pure epsilon-DP for replacing one sentence of a document, for the pair of chosen pack and released vector;
the number of sentences k is public.

The pack is chosen at the share s of epsilon (`core.mechanisms.sentences.pricing.routing_share`, a function of epsilon
alone), and the vector is released by `sentence_codes` with that pack at epsilon - s. Where k s is below a public
number (`RoutesInfo.evidence_min`), the votes could hardly show the right pack. There is no choice then: the default
pack releases at the whole epsilon. k and s are public, so this depends on no sentence.

Proof (adaptive composition). Let x and x' be neighbours. The choice is s-DP (`routing`): for every pack j,
Pr[j | x] <= e^s Pr[j | x']. Every pack is public, so whichever is chosen, `sentence_codes` with it is pure
(epsilon - s)-DP: Pr[v in S | j, x] <= e^(epsilon - s) Pr[v in S | j, x']. The second step draws noise of its own, so
for each j the two factors multiply: Pr[j, v in S | x] <= e^epsilon Pr[j, v in S | x']. Any set of pairs is a union of
such sets over j.

The conditions are those of `routing` and `sentence_codes`: codes and routes depend on one sentence each. In addition
packs and routes are public, and both steps see the same document alone: a choice or a release that read another
document of the batch would release that document too.

By adaptive composition the whole is `pure` at epsilon, and nothing stronger: which noise a document gets depends on its
choice, so the lower price of noise on counts does not apply.

Source: composition of pure differential privacy: Dwork and Roth 2014, theorem B.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from core.amounts import NANO
from core.mechanisms.sentences.pricing import routing_share
from core.mechanisms.sentences.release import FloatArray
from core.mechanisms.sentences.routing import Router
from core.mechanisms.sentences.sentence_codes import SentenceCodes


class RoutedCodes:
    """A router and `sentence_codes` with each of its packs, on one device."""

    space = SentenceCodes.space

    def __init__(self, router: Router, mechanisms: Mapping[str, SentenceCodes]) -> None:
        """`mechanisms` has one for every pack of the router. Raises ValueError for a missing pack or one that does not
        fit the routes."""
        info = router.routes.info
        if not info.fits({name: mechanism.pack.info for name, mechanism in mechanisms.items()}):
            raise ValueError("a pack of the routes is missing or made for another encoder")
        self._router = router
        self._packs = [mechanisms[name] for name in info.packs]

    def release(
        self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]
    ) -> tuple[FloatArray, tuple[str, ...]]:
        """Return one public vector for each document, float32 `[n, d]`, and the name of its pack. Both are private.

        Shapes and units: as `SentenceMechanism.release`. Raises: ValueError as there, and for an epsilon below 2 nano,
        before anything is drawn.
        """
        self._packs[0].check(documents, epsilon_nano)
        info = self._router.routes.info
        shares = np.array([routing_share(epsilon) for epsilon in epsilon_nano], dtype=np.int64)
        lengths = np.array([len(document) for document in documents], dtype=np.int64)
        shares[lengths * shares < info.evidence_min * NANO] = 0
        chosen = np.full(len(documents), info.packs.index(info.default))
        decided = [int(i) for i in np.flatnonzero(shares)]
        chosen[decided] = self._router.choose([documents[i] for i in decided], [int(shares[i]) for i in decided])
        vectors = np.empty((len(documents), info.dimension), dtype=np.float32)
        for j, mechanism in enumerate(self._packs):
            own = [int(i) for i in np.flatnonzero(chosen == j)]
            rest = [epsilon_nano[i] - int(shares[i]) for i in own]
            vectors[own] = mechanism.release([documents[i] for i in own], rest)
        return vectors, tuple(info.packs[j] for j in chosen)

    def self_check(self) -> bool:
        """Whether the device routes exactly. The mechanisms of the packs have self-checks of their own."""
        return self._router.self_check()

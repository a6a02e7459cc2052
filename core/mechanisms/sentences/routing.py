"""Chooses a domain pack for a document by the private votes of its sentences, and releases the document with that pack.

**The choice** (`Router`). Guarantee: pure epsilon-DP for replacing one sentence of a document; the number of sentences
k is public. This holds for every input vector, space and set of centroids, as long as those are public.

The route of a sentence s is the pack to which the nearest of N public centroids belongs. v_j is the number of sentences
with route j. The default pack gets `default_percent` percent of k more, rounded down. Chosen:

* for k >= 2, by permute-and-flip with the votes as scores and sensitivity 1;
* for k = 1, by randomised response of the one route. Both are epsilon-DP, and at k = 1 randomised response names the
  right pack more often.

Proof. Replacing one sentence changes one route at most: one vote falls by 1 and another rises by 1, or none changes.
The further votes of the default pack are a function of k, which is public, so every score moves by at most 1, the
sensitivity that permute-and-flip requires (`permute_and_flip`). For k = 1 the guarantee is that of randomised
response. k decides which of the two is used, and neighbours have the same k.

The only condition on a route is that it depends on that sentence alone. This holds as for the codes of
`sentence_codes`: all sums are exact integers (`core.mechanisms.integer_vectors`), and the votes are integers too.

Tight: from the votes (2, 0) to (1, 1), the second pack's probability changes by e^epsilon.

Assumption: the encoder maps each sentence to its vector independently of the others (`gpu_workers.models.encoder`
checks this on its device). Source: this project. Permute-and-flip: McKenna and Sheldon 2020; randomised response:
Kairouz, Bonawitz and Ramage 2016.

**The release** (`RoutedCodes`): a private choice, then a private release by `sentence_codes` with that pack.

Guarantee: pure epsilon-DP for replacing one sentence of a document, for the pair of chosen pack and released vector;
the number of sentences k is public.

The pack is chosen at the share s of epsilon (`core.mechanisms.sentences.registry.routing_share`, a function of epsilon
alone), and the vector is released by `sentence_codes` with that pack at epsilon - s. Where k s is below a public
number (`RoutesInfo.evidence_min`), the votes could hardly show the right pack. There is no choice then: the default
pack releases at the whole epsilon. k and s are public, so this depends on no sentence.

Proof (adaptive composition). Let x and x' be neighbours. The choice is s-DP (by `Router`): for every pack j,
Pr[j | x] <= e^s Pr[j | x']. Every pack is public, so whichever is chosen, `sentence_codes` with it is pure
(epsilon - s)-DP: Pr[v in S | j, x] <= e^(epsilon - s) Pr[v in S | j, x']. The second step draws noise of its own, so
for each j the two factors multiply: Pr[j, v in S | x] <= e^epsilon Pr[j, v in S | x']. Any set of pairs is a union of
such sets over j.

The conditions are those of `Router` and `SentenceCodes`: codes and routes depend on one sentence each. In addition
packs and routes are public, and both steps see the same document alone: a choice or a release that read another
document of the batch would release that document too.

By adaptive composition the whole is `pure` at epsilon, and nothing stronger: which noise a document gets depends on its
choice, so the lower price of noise on counts does not apply.

Source: composition of pure differential privacy: Dwork and Roth 2014, theorem B.1.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from core.amounts import NANO
from core.mechanisms.integer_vectors import CodeSpace
from core.mechanisms.samplers.discrete_noise import randomised_response
from core.mechanisms.samplers.exact import IntArray, permute_and_flip
from core.mechanisms.sentences.registry import routing_share
from core.mechanisms.sentences.release import FloatArray
from core.mechanisms.sentences.routes import Routes
from core.mechanisms.sentences.sentence_codes import SentenceCodes

VOTE_SENSITIVITY = 1


class Router:
    """Routes on one device. The module docstring has guarantee, proof and source."""

    def __init__(self, routes: Routes, device: torch.device | str = "cpu") -> None:
        self.routes = routes
        self._space = CodeSpace(routes.space, {routes.info.centroids: routes.centroids}, torch.device(device))

    def choose(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> IntArray:
        """Return the index of each document's pack in `routes.info.packs`: int64 `[n]`.

        Shapes: each document float32 `[k, d]`, k >= 1. Units: nano-epsilon, what each document's choice costs.
        """
        packs = len(self.routes.info.packs)
        chosen = np.zeros(len(documents), dtype=np.int64)
        for i, (votes, epsilon) in enumerate(zip(self.votes(documents), epsilon_nano, strict=True)):
            if len(documents[i]) == 1:
                chosen[i] = randomised_response(votes.argmax(keepdims=True), size=packs, epsilon_nano=epsilon)[0]
            else:
                scores = votes + self._further_votes(len(documents[i]))
                chosen[i] = permute_and_flip(scores, epsilon_nano=epsilon, sensitivity=VOTE_SENSITIVITY)
        return chosen

    def votes(self, documents: Sequence[torch.Tensor]) -> IntArray:
        """Return the number of each document's sentences by route: int64 `[n, packs]`. Without noise: not private."""
        packs = len(self.routes.info.packs)
        document = np.repeat(np.arange(len(documents)), [len(rows) for rows in documents])
        counts = np.bincount(document * packs + self.sentence_routes(documents), minlength=len(documents) * packs)
        votes: IntArray = counts.reshape(len(documents), packs)
        return votes

    def sentence_routes(self, documents: Sequence[torch.Tensor]) -> IntArray:
        """Return the index of the pack of every sentence: int64 `[sentences]`. Without noise: not private."""
        if not documents:
            return np.zeros(0, dtype=np.int64)
        nearest = self._space.nearest(torch.cat(list(documents)), self.routes.info.centroids)
        owners: IntArray = self.routes.owners[nearest]
        return owners

    def _further_votes(self, sentences: int) -> IntArray:
        """Return the public votes that the packs get besides those of `sentences` sentences: int64 `[packs]`."""
        info = self.routes.info
        further = np.zeros(len(info.packs), dtype=np.int64)
        further[info.packs.index(info.default)] = sentences * info.default_percent // 100
        return further

    def self_check(self) -> bool:
        """Whether the device's products are exact and a sentence's route does not depend on other sentences."""
        if not self._space.self_check():
            return False
        rows = torch.nn.functional.normalize(torch.randn(37, self.routes.info.dimension), dim=1)
        alone = [self.sentence_routes([rows[i : i + 1]]) for i in range(len(rows))]
        return np.array_equal(self.sentence_routes([rows]), np.concatenate(alone))


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

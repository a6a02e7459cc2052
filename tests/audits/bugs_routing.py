"""Planted bugs of the private choice of a pack; each names the step of the proof it breaks."""

from typing import Any

import numpy as np
from audits.bug import Bug, over_claim
from audits.detect_sentences import DOUBLE, swap
from audits.kit import Scale, audit
from audits.routing import choice_cases, routed_cases

from core.amounts import NANO
from core.mechanisms.sentences import routing
from core.mechanisms.sentences.registry import routing_share
from core.mechanisms.sentences.routing import RoutedCodes, Router

VOTES = over_claim("audit of votes", lambda: audit(choice_cases(1), Scale(40_000, 40, 10_000), batch=20_000))
LENGTHS = over_claim(
    "audit of releases routed by length",
    lambda: audit(routed_cases(3, evidence_min=1), Scale(40_000, 20, 10_000), batch=20_000),
)
ROUTED = over_claim("audit of routed releases", lambda: audit(routed_cases(2), Scale(40_000, 20, 10_000), batch=20_000))


def _votes_of_the_batch(real: Any) -> Any:
    """Every document has the votes of all documents of its batch."""

    def broken(self: Any, documents: Any) -> Any:
        votes = real(self, documents)
        return np.broadcast_to(votes.sum(axis=0), votes.shape)

    return broken


def _release_at_the_whole_epsilon(_: Any) -> Any:
    def broken(self: Any, documents: Any, epsilon_nano: Any) -> Any:
        chosen = self._router.choose(documents, [routing_share(epsilon) for epsilon in epsilon_nano])
        vectors = np.empty((len(documents), documents[0].shape[1]), dtype=np.float32)
        for j, mechanism in enumerate(self._packs):
            own = np.flatnonzero(chosen == j)
            vectors[own] = mechanism.release([documents[i] for i in own], [epsilon_nano[i] for i in own])
        return vectors, tuple(self._router.routes.info.packs[j] for j in chosen)

    return broken


def _evidence_of_the_votes(_: Any) -> Any:
    """Whether there is a choice depends on the most votes, not on the number of sentences."""

    def broken(self: Any, documents: Any, epsilon_nano: Any) -> Any:
        info = self._router.routes.info
        votes = self._router.votes(documents).max(axis=1)
        shares = np.array([routing_share(epsilon) for epsilon in epsilon_nano], dtype=np.int64)
        shares[votes * shares < info.evidence_min * NANO] = 0
        vectors = np.empty((len(documents), info.dimension), dtype=np.float32)
        chosen = np.full(len(documents), info.packs.index(info.default))
        decided = np.flatnonzero(shares)
        chosen[decided] = self._router.choose([documents[i] for i in decided], [int(shares[i]) for i in decided])
        for j, mechanism in enumerate(self._packs):
            own = np.flatnonzero(chosen == j)
            rest = [epsilon_nano[i] - int(shares[i]) for i in own]
            vectors[own] = mechanism.release([documents[i] for i in own], rest)
        return vectors, tuple(info.packs[j] for j in chosen)

    return broken


BUGS: tuple[Bug, ...] = (
    Bug(
        "sensitivity 1/2 of the votes",
        "routing",
        "every score moves by at most 1",
        swap(routing, "permute_and_flip", DOUBLE),  # the sampler takes whole numbers: half of it is twice epsilon
        VOTES,
    ),
    Bug(
        "votes of the whole batch",
        "routing",
        "a choice sees the same document alone",
        swap(Router, "votes", _votes_of_the_batch),
        VOTES,
    ),
    Bug(
        "a release at the whole epsilon",
        "routed_codes",
        "the release has epsilon - s",
        swap(RoutedCodes, "release", _release_at_the_whole_epsilon),
        ROUTED,
    ),
    Bug(
        "evidence read from the votes",
        "routed_codes",
        "whether there is a choice depends on k and s alone",
        swap(RoutedCodes, "release", _evidence_of_the_votes),
        LENGTHS,
    ),
)

"""`clipped_cosine`: choose a public candidate by the clipped cosines of its sentences.

Guarantee: pure epsilon-DP for replacing one sentence of a document; the number of sentences k is public. This holds
for every input vector, every candidate set, centre and threshold, as long as those are public.

Score. With a public centre c, threshold t and sentence vectors s_i, candidate z has
    u(z) = sum_i q(s_i, z),    q(s, z) = clip(<code(s - c), code(z - c)>, 0, G),    G = round(t L^2),
where code() is the direction as an integer vector of length about L = `code_scale(d)`
(`core.mechanisms.integer_vectors`), so <code, code> / L^2 is the cosine within 1e-3 and q / G is
clip(cos, 0, t) / t. A zero vector has code 0, cosine 0 and contribution 0.

Sensitivity G. q is an integer in 0..G and a function of one sentence and public constants. All sums are sums of
bounded integers, exact in any order, so other rows of a batch cannot change it. Replacing sentence i changes one term
from one value in [0, G] to another: |u(z) - u'(z)| <= G for every z, with G attained. The change is not monotone
over candidates (some rise, others fall), so the factor 2 in the sampler stays.

Selection: permute-and-flip with acceptance exp(eps (u - u_max) / (2 G)), exact.
Released: the chosen candidate's mean embedding (encoder space), which is post-processing.

Assumption: the encoder maps each sentence to its vector independently of the others (`gpu_workers.models.encoder`
checks this on its device). Source: this project; permute-and-flip: McKenna and Sheldon 2020, Algorithm 1 and Theorem 1;
the setting: Meehan, Mrini and Chaudhuri 2022, sections 2 and 3.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.integer_vectors import CodeMatrix, code_scale, direction_codes
from core.mechanisms.samplers.exact import permute_and_flip
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.release import CandidateMechanism, document_ids, row_chunks


def clip_level(threshold: float, dimension: int) -> int:
    """Return G: the largest contribution of one sentence, and the score's sensitivity."""
    return max(1, round(threshold * code_scale(dimension) ** 2))


class ClippedCosine(CandidateMechanism):
    """The module docstring has guarantee, proof and source."""

    name = "clipped_cosine"
    space = "encoder"

    def __init__(self, pack: DomainPack, device: torch.device | str = "cpu") -> None:
        super().__init__(pack, pack.candidates, device)
        codes = direction_codes(torch.tensor(pack.candidates), torch.tensor(pack.centre))
        self._codes = CodeMatrix(codes, self.device)
        self._levels = {
            parameters.epsilon: clip_level(parameters.threshold, pack.info.dimension)
            for parameters in pack.info.mechanism_parameters
        }

    def scores(
        self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]
    ) -> list[npt.NDArray[np.integer[Any]]]:
        """Return for each document the integer scores of the first `cosine_candidates` candidates, int32 `[m]`."""
        parameters = [self.pack.info.parameters_for(epsilon) for epsilon in epsilon_nano]
        levels = torch.tensor([self._levels[k.epsilon] for k in parameters], dtype=torch.int32, device=self.device)
        ids = document_ids(documents, self.device)
        rows = torch.cat(list(documents)).to(self.device)
        totals = torch.zeros((len(documents), self.pack.info.candidates), dtype=torch.int32, device=self.device)
        for part in row_chunks(len(rows)):
            terms = self.contributions(rows[part], levels[ids[part]])
            totals.index_add_(0, ids[part], terms)
        host = totals.cpu().numpy()
        return [host[i, : k.cosine_candidates] for i, k in enumerate(parameters)]

    def contributions(self, rows: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
        """Return q(s, z) for every row s `[n, d]` and candidate z: int32 `[n, m]` in 0..`levels[n]`."""
        dots = self._codes.dots(direction_codes(rows, self._centre))
        return torch.minimum(dots.clamp_(min=0), levels[:, None])

    def sample(self, scores: npt.NDArray[np.integer[Any]], epsilon_nano: int) -> int:
        level = self._levels[self.pack.info.parameters_for(epsilon_nano).epsilon]
        return permute_and_flip(scores, epsilon_nano=epsilon_nano, sensitivity=level)

    def self_check(self) -> bool:
        """Whether the device's products are exact and a row's contributions do not depend on other rows."""
        if not self._codes.self_check():
            return False
        dimension = self.pack.info.dimension
        rows = torch.nn.functional.normalize(torch.randn(37, dimension), dim=1).to(self.device)
        levels = torch.full((37,), code_scale(dimension) ** 2, dtype=torch.int32, device=self.device)
        together = self.contributions(rows, levels)
        alone = torch.cat([self.contributions(rows[i : i + 1], levels[i : i + 1]) for i in range(37)])
        return torch.equal(together, alone)

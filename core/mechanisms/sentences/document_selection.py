"""`document_selection`: release one of the public candidates nearest to the whole document, or another one.

Guarantee: pure epsilon-DP for replacing the **whole document** by any other, of any number of sentences: for any two
documents and every set S of vectors, Pr[release(x) in S] <= e^eps Pr[release(x') in S]. The number of sentences is
hidden too. This holds for every input vector, candidate set and centre, as long as candidates and centre are public.
It implies the same epsilon for replacing one sentence, or one token. Releases compose by sum.

The n candidates of largest centred cosine with the document's mean form its subset: exactly n, ties by index. Released:
the vector of a uniform member with probability n e^eps / (n e^eps + m - n), else of a uniform other one of the m.

Proof. A member is released with probability e^eps / (n e^eps + m - n), any other candidate with 1 / (n e^eps + m - n).
n is a function of m and epsilon alone, so both probabilities are the same for every document. Whatever the two subsets
are, no candidate is more than e^eps times as likely for one document as for another. The ranking has to satisfy only
two conditions: it gives n different candidates, and it is a function of that document alone. If it depended on other
documents in a batch, a document would affect their releases as well. The mean is a sum of bounded integers and the
cosine a product of integer codes (`integer_vectors`). Both are exact in any order, and the steps between them are
elementwise.

The number n (`subset_size`) maximises the mutual information of the released candidate and a uniform item (Wang et al.
2016): n = m (e^eps (eps - 1) + 1) / (e^eps - 1)^2, rounded, at least 1. With a larger n the release is a member more
often; with a smaller n a member is closer to the document. On the `general` pack this is within a third of the n of
largest expected cosine between release and document at every epsilon from 1 to 6. The m / (e^eps + 1) of Ye and Barg
2018, optimal for frequencies, gives the members a probability of only 1/2 however large m is.

Assumption: the encoder maps each sentence to its vector independently of the others (`gpu_workers.models.encoder`
checks this on its device). Source: the form of release and its sampler: Ye and Barg 2018 (subset selection), in dual
form: the release is one item near the document instead of a subset that contains its item.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from core.amounts import NANO
from core.mechanisms.integer_vectors import CodeMatrix, codes_of, direction_codes, fine_integers
from core.mechanisms.samplers.discrete_noise import subset_selection
from core.mechanisms.samplers.exact import IntArray
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.release import FloatArray, SentenceMechanism, document_ids, row_chunks

_EPSILON_SERIES = 1e-3  # below this, the closed form of `subset_size` cancels


def subset_size(candidates: int, epsilon_nano: int) -> int:
    """Return n, a function of public numbers, at least 1 and below the number of candidates.

    There are at least 2 candidates. Units: epsilon in nano. The guarantee holds for every n; this n optimises utility
    (module docstring).
    """
    epsilon = epsilon_nano / NANO
    if epsilon < _EPSILON_SERIES:
        share = 0.5 - epsilon / 6
    else:
        seldom = math.exp(-epsilon)
        share = seldom * (epsilon - 1 + seldom) / (1 - seldom) ** 2
    return min(max(1, round(candidates * share)), candidates - 1)


class DocumentSelection(SentenceMechanism):
    """The module docstring has guarantee, proof and source."""

    name = "document_selection"
    space = "encoder"

    def __init__(self, pack: DomainPack, device: torch.device | str = "cpu") -> None:
        super().__init__(pack, device)
        self._centre = torch.tensor(pack.centre, device=self.device)
        codes = direction_codes(torch.tensor(pack.candidates), torch.tensor(pack.centre))
        self._codes = CodeMatrix(codes, self.device)

    def _release(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> FloatArray:
        vectors: FloatArray = self.pack.candidates[self.select(documents, epsilon_nano)]
        return vectors

    def select(self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]) -> IntArray:
        """Return the index of each document's candidate, int64 `[n]`. The arguments are those of `release`."""
        self.check(documents, epsilon_nano)
        size = self.pack.info.candidates
        indices = np.zeros(len(documents), dtype=np.int64)
        if size == 1:
            return indices  # the only candidate, whatever the document
        for epsilon in dict.fromkeys(epsilon_nano):
            members = subset_size(size, epsilon)
            chosen = np.flatnonzero(np.array(epsilon_nano) == epsilon)
            for part in row_chunks(len(chosen)):  # subsets are large where epsilon is small
                subsets = self.subsets([documents[int(i)] for i in chosen[part]], members)
                indices[chosen[part]] = subset_selection(subsets, size=size, epsilon_nano=epsilon)
        return indices

    def subsets(self, documents: Sequence[torch.Tensor], members: int) -> IntArray:
        """Return the `members` candidates nearest to each of at least one document. Without noise: not private.

        Shapes: int64 `[n, members]`, ascending.
        """
        nearest = self._codes.nearest(codes_of(self._means(documents)), members)
        subsets: IntArray = nearest.sort(dim=1).values.cpu().numpy()
        return subsets

    def _means(self, documents: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return each document's mean in units of 2^-14 from the centre: integers in float64, `[n, d]`.

        The sum has at most 2^12 integers of at most 2^16, so it is exact in any order.
        """
        rows = torch.cat(list(documents)).to(self.device)
        ids = document_ids(documents, self.device)
        sums = torch.zeros((len(documents), rows.shape[1]), dtype=torch.float64, device=self.device)
        for part in row_chunks(len(rows)):
            sums.index_add_(0, ids[part], fine_integers(rows[part], self._centre))
        lengths = torch.tensor([len(document) for document in documents], dtype=torch.float64, device=self.device)
        return (sums / lengths[:, None]).round_()

    def self_check(self) -> bool:
        """Whether the device's sums and products are exact and a document's subset is independent of the others."""
        if not self._codes.self_check():
            return False
        dimension, size = self.pack.info.dimension, self.pack.info.candidates
        rows = torch.nn.functional.normalize(torch.randn(300, dimension), dim=1).to(self.device)
        bounds = list(pairwise((0, 1, 3, 6, 11, 19, 32, 53, 87, 300)))
        documents = [rows[start:stop] for start, stop in bounds]
        fine = fine_integers(rows, self._centre).to("cpu", torch.int64)
        sums = torch.stack([fine[start:stop].sum(dim=0) for start, stop in bounds])
        exact = (sums.double() / torch.tensor([[stop - start] for start, stop in bounds])).round()
        if not torch.equal(self._means(documents).cpu(), exact):
            return False
        members = subset_size(size, NANO) if size > 1 else 1
        alone = np.concatenate([self.subsets([document], members) for document in documents])
        return np.array_equal(self.subsets(documents, members), alone)

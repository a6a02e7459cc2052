"""`deep_candidate`: choose a public candidate that lies deep among the document's sentences.

Guarantee: pure epsilon-DP for replacing one sentence of a document; the number of sentences k is public. This holds
for every input vector, candidate set and projections, as long as those are public.

Score. With the public recoder H and published unit projections v_1..v_p, for candidate f (a public document's mean
recoded sentence)
    h_j(f) = #{i : <H(s_i), v_j> >= <f, v_j>},    u(f) = -max_j |2 h_j(f) - k|,
the (doubled, so integer) approximate Tukey depth at its lowest direction, in the recoded space. In that space documents
of one kind lie close together, so that a deep candidate exists. A public factor scales the space to the integer grid.

Sensitivity 2. Whether sentence i counts in h_j(f) depends on sentence i and public constants alone: its projection
is an inner product of bounded integers, exact in any order, compared with a fixed integer. Replacing one sentence
changes each h_j by at most 1 and each |2 h_j - k| by at most 2. A maximum changes by no more than its arguments.

Selection: the exponential mechanism with weights exp(eps u / (2 * 2)), exact. (With the paper's u/2, whose
sensitivity is 1, the weights are the same.)
Released: the chosen candidate's recoded mean, which is post-processing.

The recoder H (section 4.3 of the source) recodes each sentence independently. Rows are processed in chunks of one fixed
size, padded with zeros, and in one thread, so that the device runs the same kernel for every batch. Its `self_check`
measures that rows do not affect each other inside such a kernel; as for the encoder, this is not proven.

Assumption: encoder and recoder map each sentence to its vector independently of the others
(`gpu_workers.models.encoder` and `Recoder` check this on their device). Source: Meehan, Mrini and Chaudhuri 2022,
sections 4.1 to 4.4 (depth, candidates, recoder) and A.1 (approximate depth). Their Algorithm 1 in the appendix prints
max_j u_j. The text's lowest depth is meant, and it measures far better (benchmarks, sentence-level embeddings).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.integer_vectors import fine_integers
from core.mechanisms.samplers.exact import exponential_mechanism
from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.release import CandidateMechanism, document_ids
from core.mechanisms.torch_threads import at_most

Layers = Sequence[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]

_ROWS = 32


class Recoder:
    """Linear layers `[d, d]` with ReLU between them, as in a domain pack."""

    def __init__(self, layers: Layers, device: torch.device) -> None:
        self._device = device
        self._layers = [
            (torch.tensor(weight, device=device), torch.tensor(bias, device=device)) for weight, bias in layers
        ]

    @torch.inference_mode()
    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Map float32 `[n, d]` to float32 `[n, d]`."""
        padded = torch.nn.functional.pad(rows.to(self._device), (0, 0, 0, -len(rows) % _ROWS))
        with at_most(1):
            return torch.cat([self._chunk(chunk) for chunk in torch.split(padded, _ROWS)])[: len(rows)]

    def _chunk(self, hidden: torch.Tensor) -> torch.Tensor:
        for index, (weight, bias) in enumerate(self._layers):
            if index:
                hidden = torch.relu(hidden)
            hidden = torch.nn.functional.linear(hidden, weight, bias)
        return hidden

    def self_check(self) -> bool:
        """Whether a row's result is bitwise the same alone and at any position among other rows."""
        rows = torch.randn(3 * _ROWS + 5, self._layers[0][0].shape[1])
        alone = torch.cat([self(row[None]) for row in rows])
        order = torch.randperm(len(rows))
        return torch.equal(self(rows), alone) and torch.equal(self(rows[order]), alone[order])


SENSITIVITY = 2


class DeepCandidate(CandidateMechanism):
    """The module docstring has guarantee, proof and source."""

    name = "deep_candidate"
    space = "recoded"

    def __init__(self, pack: DomainPack, device: torch.device | str = "cpu") -> None:
        super().__init__(pack, pack.recoded, device)
        self._origin = torch.zeros(pack.info.dimension, device=self.device)
        self._recoder = Recoder(pack.recoder, self.device)
        # The candidates fill [-1, 1]. A sentence's coordinate is clipped at 4, elementwise.
        self._factor = 1.0 / max(float(np.abs(pack.recoded).max()), 1e-6)
        # Coordinates are integers of at most 2^16 and 2^14: float64 holds every partial sum of their products exactly.
        self._directions = fine_integers(torch.tensor(pack.projections, device=self.device), self._origin)
        thresholds = self._project(torch.tensor(pack.recoded, device=self.device), pack.info.projections)
        self._sorted, order = thresholds.sort(dim=1)
        self._ranks = order.argsort(dim=1)

    def scores(
        self, documents: Sequence[torch.Tensor], epsilon_nano: Sequence[int]
    ) -> list[npt.NDArray[np.integer[Any]]]:
        """Return for each document u(f) of the first `depth_candidates` candidates, int64 `[m]`, in -k..0."""
        parameters = [self.pack.info.parameters_for(epsilon) for epsilon in epsilon_nano]
        width = max(k.projections for k in parameters)
        ids = document_ids(documents, self.device)
        below = self._below(self._recoder(torch.cat(list(documents))), ids, len(documents), width)
        scores = []
        for i, k in enumerate(parameters):
            # h = k - below, so |2 h - k| = |k - 2 below|.
            behind = torch.gather(below[i, : k.projections], 1, self._ranks[: k.projections, : k.depth_candidates])
            unbalance = self._over_directions((len(documents[i]) - 2 * behind).abs())
            scores.append((-unbalance).cpu().numpy())
        return scores

    @staticmethod
    def _over_directions(unbalance: torch.Tensor) -> torch.Tensor:
        """Reduce |2 h_j - k| `[p, m]` to one number for each candidate: that of the worst direction."""
        return unbalance.amax(dim=0)

    def _project(self, vectors: torch.Tensor, count: int) -> torch.Tensor:
        """Return inner products of recoded vectors with `count` directions: integers in float64, `[count, n]`."""
        return (fine_integers(vectors * self._factor, self._origin) @ self._directions[:count].t()).t().contiguous()

    def _below(self, rows: torch.Tensor, ids: torch.Tensor, documents: int, width: int) -> torch.Tensor:
        """Count for each document, direction and sorted threshold the sentences strictly below it: `[n, p, m]`.

        A sentence lies at or above exactly the thresholds that sort before its insertion point. The counts are running
        sums of a histogram of insertion points.
        """
        points = torch.searchsorted(self._sorted[:width], self._project(rows, width), right=True)
        cells = self.pack.info.candidates + 1
        line = ids[None, :] * width + torch.arange(width, device=self.device)[:, None]
        histogram = torch.bincount((line * cells + points).flatten(), minlength=documents * width * cells)
        return histogram.view(documents, width, cells)[..., :-1].cumsum(dim=2)

    def sample(self, scores: npt.NDArray[np.integer[Any]], epsilon_nano: int) -> int:
        return exponential_mechanism(scores, epsilon_nano=epsilon_nano, sensitivity=SENSITIVITY)

    def self_check(self) -> bool:
        """Whether the recoder treats rows independently and projections equal int64 arithmetic at several sizes."""
        if not self._recoder.self_check():
            return False
        for count in (1, 3, 16, 37):
            rows = torch.randn(count, self.pack.info.dimension, device=self.device) / self._factor
            codes = fine_integers(rows * self._factor, self._origin).to("cpu", torch.int64)
            exact = self._directions.to("cpu", torch.int64) @ codes.t()
            computed = self._project(rows, self.pack.info.projections)
            if not torch.equal(computed.to("cpu", torch.int64), exact):
                return False
        return True

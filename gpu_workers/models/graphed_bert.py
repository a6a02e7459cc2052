"""A BERT forward pass on a GPU that runs a few fixed shapes, each recorded once as a CUDA graph and replayed.

A small batch on a GPU spends its time on launching kernels one by one. A replay launches all of them at once. It also
runs the very kernels that were recorded, so a shape that `Encoder.self_check` has compared bit by bit computes the same
afterwards, whatever the libraries would choose for a later call.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gpu_workers.models.packed_bert import Group, PackedBert

_WARM_UP_CALLS = 3  # libraries create handles and workspaces in their first calls, which a recording cannot hold


@dataclass(frozen=True)
class _Recorded:
    """A graph, the memory that it reads, and the memory that it writes."""

    graph: torch.cuda.CUDAGraph
    ids: torch.Tensor
    mask: torch.Tensor
    states: torch.Tensor


class GraphedBert:
    """Calls `bert`, whose weights are on a GPU, by one recorded graph for each shape of a group.

    Every shape keeps device memory for its inputs and results: the caller bounds the number of shapes.
    """

    def __init__(self, bert: PackedBert) -> None:
        self._bert = bert
        self._recorded: dict[tuple[int, int], _Recorded] = {}

    def __call__(self, groups: Sequence[Group]) -> list[torch.Tensor]:
        """Return the last hidden states of each group, `[sentences, length, d]`."""
        with torch.cuda.device(groups[0][0].device):  # streams and recordings belong to the current device
            return [self._states(ids, mask) for ids, mask in groups]

    def _states(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        shape = (ids.shape[0], ids.shape[1])
        recorded = self._recorded.get(shape)
        if recorded is None:
            recorded = self._recorded[shape] = self._record(ids, mask)
        recorded.ids.copy_(ids)
        recorded.mask.copy_(mask)
        recorded.graph.replay()
        return recorded.states.clone()  # the next replay overwrites it

    def _record(self, ids: torch.Tensor, mask: torch.Tensor) -> _Recorded:
        own_ids, own_mask = ids.clone(), mask.clone()
        side = torch.cuda.Stream(ids.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(ids.device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP_CALLS):
                self._bert([(own_ids, own_mask)])
        torch.cuda.current_stream(ids.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            states = self._bert([(own_ids, own_mask)])[0]
        return _Recorded(graph, own_ids, own_mask, states)

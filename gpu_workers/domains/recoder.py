"""The recoder: a map of sentence embeddings whose means separate public topics (Meehan et al. 2022, section 4.3).

It is trained on public documents only, without labels. The targets are k-means clusters of the documents' mean
embeddings.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.sentences.deep_candidate import Recoder
from core.mechanisms.sentences.domain_pack import RECODER_LAYERS
from gpu_workers.domains.embedded_documents import Embedded, half, mean_by_document

FloatArray = npt.NDArray[np.float32]
Layers = tuple[tuple[FloatArray, FloatArray], ...]

CLUSTERS = 50
_DOCUMENTS_A_CLUSTER = 10
_EPOCHS = 12
_DOCUMENTS_A_BATCH = 128


def network(dimension: int) -> torch.nn.Sequential:
    """Four layers d -> d with ReLU between them."""
    layers: list[torch.nn.Module] = []
    for i in range(RECODER_LAYERS):
        layers.append(torch.nn.Linear(dimension, dimension))
        if i + 1 < RECODER_LAYERS:
            layers.append(torch.nn.ReLU())
    return torch.nn.Sequential(*layers)


def train(corpus: Embedded, seed: int, *, on_update: Callable[[float], None]) -> Layers:
    """Train H and a linear L by cross-entropy of L(mean_i H(s_i)) against the clusters. Returns H's layers.

    `on_update` is called with the finished share.
    """
    from sklearn.cluster import KMeans

    torch.manual_seed(seed)
    order_source = np.random.default_rng(seed)
    means = corpus.means()
    clusters = min(CLUSTERS, max(2, len(means) // _DOCUMENTS_A_CLUSTER))
    targets = torch.from_numpy(KMeans(clusters, n_init=3, random_state=seed).fit_predict(means).astype(np.int64))
    documents = [torch.from_numpy(document) for document in corpus.documents()]
    recoder = network(means.shape[1])
    head = torch.nn.Linear(means.shape[1], clusters)
    steps = -(-len(documents) // _DOCUMENTS_A_BATCH) * _EPOCHS
    optimiser = torch.optim.AdamW([*recoder.parameters(), *head.parameters()], lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1e-3, total_steps=steps)
    for epoch in range(_EPOCHS):
        order = order_source.permutation(len(documents))
        for start in range(0, len(order), _DOCUMENTS_A_BATCH):
            chosen = order[start : start + _DOCUMENTS_A_BATCH]
            lengths = torch.tensor([len(documents[i]) for i in chosen])
            ids = torch.repeat_interleave(torch.arange(len(chosen)), lengths)
            coded = recoder(torch.cat([documents[i] for i in chosen]))
            mean = torch.zeros(len(chosen), means.shape[1]).index_add(0, ids, coded) / lengths[:, None]
            loss = torch.nn.functional.cross_entropy(head(mean), targets[chosen])
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            schedule.step()
        on_update((epoch + 1) / _EPOCHS)
    linears = [layer for layer in recoder if isinstance(layer, torch.nn.Linear)]
    # The pack stores float16: train on, and recode with, the stored numbers.
    return tuple((half(layer.weight.detach().numpy()), half(layer.bias.detach().numpy())) for layer in linears)


def recoded_means(layers: Layers, corpus: Embedded) -> FloatArray:
    """Mean recoded embedding of each document, `[n, d]`."""
    recode = Recoder(layers, torch.device("cpu"))
    return mean_by_document(recode(torch.from_numpy(corpus.vectors)).numpy(), corpus.lengths)

"""Learn a small codebook, and the decoder of its noisy histograms, from public documents.

At a small epsilon only a few codes can stand out of the noise, so it matters what they tell apart. The centroids start
as k-means centroids of public sentences. They are then trained through the mechanism's own noise: windows of public
documents are coded, the noisy histograms go through a decoder, and its vectors have to predict what is publicly known
about the documents (`LabelTask`). Tasks are public labels and, for every corpus, the k-means clusters of its documents'
means, which need no label. The choice of the nearest centroid has no gradient; that of a softmax takes its place.

Afterwards the centroids are fixed, on the grid of the space, and a new decoder is trained by squared error alone. It
therefore estimates the posterior mean of a document's vector given the noisy histogram and the number of sentences.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from core.mechanisms.integer_vectors import CodeSpace, Projection
from core.mechanisms.sentences.domain_pack import (
    DECODED_CODES_MAX,
    CodeArray,
    CodeNoise,
    CodeTable,
    FloatArray,
    decoder_shapes,
)
from core.mechanisms.sentences.sentence_codes import features
from core.mechanisms.space import CODE_MAX, Space
from gpu_workers.domains.spec import Embedded, half

HIDDEN = 256
WINDOW_MAX = 24  # sentences
DOCUMENTS_A_STEP = 240
_ROWS = 8_192
_TASK_WEIGHT = 5.0
_PLAIN_WEIGHT = 0.09  # of the error in the encoder's own space, beside the error in the space of the codes
_SOFTNESS = 8.0
_RATE, _CENTROID_RATE = 3e-3, 3e-2  # peaks; that of the centroids in units of the places' standard deviation
_WEIGHT_DECAY = 1e-4
_GRADIENT_MAX = 5.0
_TARGET_SCALE = 10.0  # brings the coordinates of vectors to a scale near 1
_CALIBRATION_BATCHES = 200  # at most, and at most as many as a training has steps
_CONSTANT = 1e-4  # of the largest standard deviation of a coordinate
_CALIBRATION_RIDGE = 1e-4
_SINGLES_SHARE = 0.25  # of the places of a batch that a corpus of single sentences gets, beside a corpus of documents

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelTask:
    """What is publicly known about the documents of one corpus: `classes` `[n]`, -1 where nothing is known."""

    corpus: int
    classes: Indices
    weight: float = 1.0


class Windows:
    """Draws windows of consecutive sentences from the documents of one corpus."""

    def __init__(self, corpus: Embedded, places: CodeArray) -> None:
        self.vectors = torch.from_numpy(corpus.vectors)
        self.places = torch.from_numpy(places)
        self.lengths = torch.from_numpy(corpus.lengths)
        self._starts = torch.cumsum(self.lengths, 0) - self.lengths

    def draw(
        self, count: int, longest: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return documents `[count]`, rows `[sum k]` and lengths k `[count]`; log k is uniform up to `longest`."""
        documents = torch.randint(len(self.lengths), (count,), generator=generator)
        whole = self.lengths[documents]
        wanted = torch.exp(torch.rand(count, generator=generator) * math.log(longest + 1)).long()
        k = torch.minimum(wanted.clamp(1, longest), whole)
        first = self._starts[documents] + (torch.rand(count, generator=generator) * (whole - k + 1)).long()
        rows = torch.repeat_interleave(first - (torch.cumsum(k, 0) - k), k) + torch.arange(int(k.sum()))
        return documents, rows, k


@dataclass(frozen=True)
class _Channel:
    """The mechanism's noise in floating point, for training alone. `longest` is the longest document, in sentences."""

    noise: CodeNoise
    epsilon: float
    codes: int
    longest: int

    def of_codes(
        self, codes: torch.Tensor, document: torch.Tensor, count: int, generator: torch.Generator
    ) -> torch.Tensor:
        """Return noisy histograms `[count, N]` of codes `[rows]`."""
        if self.noise is CodeNoise.RESPONSES:
            lies, step = self._lies(len(codes), generator)
            codes = torch.where(lies, (codes + step) % self.codes, codes)
        true = torch.bincount(document * self.codes + codes, minlength=count * self.codes).view(count, -1).float()
        return true + self._added(true.shape, generator) if self.noise is CodeNoise.COUNTS else true

    def of_soft_codes(
        self, codes: torch.Tensor, document: torch.Tensor, count: int, generator: torch.Generator
    ) -> torch.Tensor:
        """Return noisy histograms `[count, N]` of one-hot codes `[rows, N]`, with a gradient."""
        if self.noise is CodeNoise.RESPONSES:
            lies, step = self._lies(len(codes), generator)
            other = torch.nn.functional.one_hot((codes.argmax(dim=1) + step) % self.codes, self.codes).float()
            return _sums(torch.where(lies[:, None], other, codes), document, count)
        true = _sums(codes, document, count)
        return true + self._added(true.shape, generator)

    def _lies(self, rows: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return which responses are another code, and by how many places it is further."""
        kept = 1 / (1 + (self.codes - 1) * math.exp(-self.epsilon))
        lies = torch.rand(rows, generator=generator) >= kept
        return lies, torch.randint(1, self.codes, (rows,), generator=generator)

    def _added(self, shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
        one, other = (torch.empty(shape).exponential_(generator=generator) * (2 / self.epsilon) for _ in range(2))
        return one.floor() - other.floor()


@dataclass(frozen=True)
class _Batch:
    """Windows of documents of all corpora. `documents` and `rows` have one entry for each corpus.

    `lengths` k `[n]`, `document` `[sum k]` the window of each row, `means` `[n, d]` of the windows' sentences, `weight`
    `[n]` sqrt(k): the releases of longer documents have less noise, so they teach more.
    """

    documents: list[torch.Tensor]
    rows: list[torch.Tensor]
    lengths: torch.Tensor
    document: torch.Tensor
    means: torch.Tensor
    weight: torch.Tensor


class Decoder(torch.nn.Module):
    """The linear map and, if it `has_network`, the network of a row, on the scale of the training."""

    def __init__(self, codes: int, dimension: int, *, has_network: bool = True) -> None:
        super().__init__()
        self.codes = codes
        self.linear = torch.nn.Linear(codes, dimension)
        shapes = decoder_shapes(codes, HIDDEN, dimension) if has_network else []
        self.layers = [torch.nn.Linear(inputs, outputs) for outputs, inputs in shapes]
        self._registered = torch.nn.ModuleList(self.layers)

    def forward(self, histograms: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        shares, hidden = self.readout_inputs(histograms, lengths)
        out: torch.Tensor = self.linear(shares)
        return out + self.layers[-1](hidden) if self.layers else out

    def readout_inputs(self, histograms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the result is linear in: `[n, N]` for the linear map and `[n, hidden]` for the last layer, of 0
        columns without a network."""
        inputs = features(histograms, lengths)
        if not self.layers:
            return inputs[:, : self.codes], inputs[:, :0]
        hidden = inputs
        for layer in self.layers[:-1]:
            hidden = torch.nn.functional.gelu(layer(hidden))
        return inputs[:, : self.codes], hidden


class Learner:
    """The public documents of a domain, and what both trainings share.

    `corpora` are its corpora. `axes` `[d, r]` are the real axes of the `space` of the codes.
    """

    def __init__(self, corpora: Sequence[Embedded], space: Space, axes: npt.NDArray[np.float64], seed: int) -> None:
        self._space, self._seed = space, seed
        self._windows = [Windows(corpus, placed(corpus.vectors, space)) for corpus in corpora]
        sums = sum(corpus.vectors.sum(axis=0, dtype=np.float64) for corpus in corpora)
        self._mean = torch.from_numpy((sums / sum(len(corpus.vectors) for corpus in corpora)).astype(np.float32))
        dimension = len(self._mean)
        spread = torch.stack([window.vectors.std(dim=0) for window in self._windows]).amax(dim=0)
        self._varies = (spread > _CONSTANT * spread.max()).float()
        self._axes = torch.from_numpy((axes / np.linalg.norm(axes) * math.sqrt(dimension)).astype(np.float32))
        shares = [1.0 if corpus.lengths.mean() > 2 else _SINGLES_SHARE for corpus in corpora]
        self._counts = [round(DOCUMENTS_A_STEP * share / sum(shares)) for share in shares]
        sample = torch.cat([w.places[:: max(1, len(w.places) // _ROWS)] for w in self._windows])
        self._spread = float(sample.float().var(dim=0).sum())

    def learn(
        self,
        start: CodeArray,
        tasks: Sequence[LabelTask],
        noise: CodeNoise,
        epsilon: float,
        *,
        steps: int,
        fixed: bool = False,
        longest: int = WINDOW_MAX,
        on_update: Callable[[float], None],
    ) -> tuple[CodeArray, CodeTable]:
        """Return centroids and their table for this noise. `start` are int8 centroids `[N, r]`.

        There are two trainings of `steps` each; `fixed` keeps the centroids and trains the decoder alone. Above
        `DECODED_CODES_MAX` codes there is no network and no second training: the linear map is the least-squares
        solution. `longest` is the number of sentences of the longest documents that the row is for. `on_update` is
        called with the finished share.
        """
        channel = _Channel(noise, epsilon, len(start), longest)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            learned = start
            if not fixed:
                learned = self._centroids(start, tasks, channel, steps, lambda share: on_update(share / 2))
            table = self._decoder(learned, channel, steps, lambda share: on_update((1 + share) / 2))
        return learned, table

    def _centroids(
        self,
        start: CodeArray,
        tasks: Sequence[LabelTask],
        channel: _Channel,
        steps: int,
        on_update: Callable[[float], None],
    ) -> CodeArray:
        centroids = torch.nn.Parameter(torch.from_numpy(start.astype(np.float32)))
        dimension = len(self._mean)
        decoder = Decoder(len(start), dimension)
        heads = [torch.nn.Linear(dimension, int(task.classes.max()) + 1) for task in tasks]
        weights: list[torch.Tensor] = [*decoder.parameters(), *(p for head in heads for p in head.parameters())]
        rate = _CENTROID_RATE * math.sqrt(self._spread / centroids.shape[1])

        def loss(batch: _Batch, generator: torch.Generator) -> torch.Tensor:
            places = torch.cat([w.places[rows] for w, rows in zip(self._windows, batch.rows, strict=True)]).float()
            codes = self._soft_codes(places, centroids)
            histograms = channel.of_soft_codes(codes, batch.document, len(batch.lengths), generator)
            decoded = decoder(histograms, batch.lengths)
            missed = self._missed(decoded, batch)
            by_corpus = list(
                zip(torch.split(decoded, self._counts), torch.split(batch.weight, self._counts), strict=True)
            )
            for task, head in zip(tasks, heads, strict=True):
                released, weight = by_corpus[task.corpus]
                classes = torch.from_numpy(task.classes)[batch.documents[task.corpus]]
                wrong = torch.nn.functional.cross_entropy(head(released), classes, ignore_index=-1, reduction="none")
                share = _TASK_WEIGHT * task.weight / sum(each.weight for each in tasks)
                missed = missed + share * _weighted(wrong, weight)
            return missed

        self._train([(weights, _RATE), ([centroids], rate)], loss, channel, steps, on_update)
        learned: CodeArray = np.clip(np.round(centroids.detach().numpy()), -CODE_MAX, CODE_MAX).astype(np.int8)
        return learned

    def _decoder(
        self, centroids: CodeArray, channel: _Channel, steps: int, on_update: Callable[[float], None]
    ) -> CodeTable:
        size = len(centroids)
        decoder = Decoder(size, len(self._mean), has_network=size <= DECODED_CODES_MAX)
        space = CodeSpace(self._space, {size: centroids}, torch.device("cpu"))
        codes = [torch.from_numpy(space.nearest(window.vectors, size)) for window in self._windows]

        def histograms(batch: _Batch, generator: torch.Generator) -> torch.Tensor:
            drawn = torch.cat([own[rows] for own, rows in zip(codes, batch.rows, strict=True)])
            return channel.of_codes(drawn, batch.document, len(batch.lengths), generator)

        def loss(batch: _Batch, generator: torch.Generator) -> torch.Tensor:
            return self._missed(decoder(histograms(batch, generator), batch.lengths), batch)

        if size <= DECODED_CODES_MAX:
            self._train([(list(decoder.parameters()), _RATE)], loss, channel, steps, on_update)
        self._calibrate(decoder, channel, histograms, min(_CALIBRATION_BATCHES, steps))
        return self._table(decoder, channel.noise)

    def _train(
        self,
        groups: Sequence[tuple[list[torch.Tensor], float]],
        loss: Callable[[_Batch, torch.Generator], torch.Tensor],
        channel: _Channel,
        steps: int,
        on_update: Callable[[float], None],
    ) -> None:
        """Minimise `loss` over groups of weights, each with its peak rate."""
        optimiser = torch.optim.AdamW([{"params": weights} for weights, _ in groups], weight_decay=_WEIGHT_DECAY)
        rates = [rate for _, rate in groups]
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rates, total_steps=steps)
        generator = torch.Generator().manual_seed(self._seed)
        for step in range(steps):
            value = loss(self._batch(channel, generator), generator)
            optimiser.zero_grad()
            torch.autograd.backward(value)
            for weights, _ in groups:
                torch.nn.utils.clip_grad_norm_(weights, _GRADIENT_MAX)
            optimiser.step()
            schedule.step()
            if step % 50 == 49:
                on_update((step + 1) / steps)

    @torch.no_grad()
    def _calibrate(
        self,
        decoder: Decoder,
        channel: _Channel,
        histograms: Callable[[_Batch, torch.Generator], torch.Tensor],
        batches: int,
    ) -> None:
        """Correct the linear map and the last layer by the least-squares solution for their error on new windows.

        A gradient method leaves small errors in all coordinates. A classifier that was trained on exact vectors adds
        them up. A linear map that was not trained becomes the solution itself.
        """
        generator = torch.Generator().manual_seed(self._seed + 1)
        square = cross = torch.zeros(())
        for _ in range(batches):
            batch = self._batch(channel, generator)
            noisy = histograms(batch, generator)
            inputs = torch.cat([*decoder.readout_inputs(noisy, batch.lengths), torch.ones(len(noisy), 1)], dim=1)
            error = _TARGET_SCALE * (batch.means - self._mean) - decoder(noisy, batch.lengths)
            weighted = (inputs * batch.weight[:, None]).T
            square, cross = square + (weighted @ inputs).double(), cross + (weighted @ error).double()
        ridge = torch.full(
            (len(square),), _CALIBRATION_RIDGE * float(square.diagonal()[:-1].mean()), dtype=torch.double
        )
        ridge[-1] = 0.0  # of the constant
        correction: torch.Tensor = torch.linalg.solve(square + torch.diag(ridge), cross).float()
        decoder.linear.weight.add_(correction[: decoder.codes].T)
        last = decoder.layers[-1] if decoder.layers else decoder.linear
        last.bias.add_(correction[-1])
        if decoder.layers:
            last.weight.add_(correction[decoder.codes : -1].T)

    def _batch(self, channel: _Channel, generator: torch.Generator) -> _Batch:
        counted = zip(self._windows, self._counts, strict=True)
        drawn = [window.draw(count, channel.longest, generator) for window, count in counted]
        lengths = torch.cat([k for _, _, k in drawn])
        document = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        vectors = torch.cat([w.vectors[rows] for w, (_, rows, _) in zip(self._windows, drawn, strict=True)])
        return _Batch(
            documents=[documents for documents, _, _ in drawn],
            rows=[rows for _, rows, _ in drawn],
            lengths=lengths,
            document=document,
            means=_sums(vectors, document, len(lengths)) / lengths[:, None],
            weight=lengths.float().sqrt(),
        )

    def _missed(self, decoded: torch.Tensor, batch: _Batch) -> torch.Tensor:
        """The mean squared error, in the space of the codes and, with a smaller weight, in the encoder's own."""
        error = decoded / _TARGET_SCALE - (batch.means - self._mean)
        squared = (error @ self._axes).square().sum(dim=1) + _PLAIN_WEIGHT * error.square().sum(dim=1)
        return _weighted(squared, batch.weight)

    def _soft_codes(self, places: torch.Tensor, centroids: torch.Tensor) -> torch.Tensor:
        """One-hot codes `[rows, N]`; their gradient is that of a softmax over the distances."""
        nearness = (2 * places @ centroids.T - centroids.square().sum(dim=1)) * (_SOFTNESS / self._spread)
        hard = torch.nn.functional.one_hot(nearness.argmax(dim=1), len(centroids)).float()
        soft = torch.softmax(nearness, dim=1)
        return hard + soft - soft.detach()

    def _table(self, decoder: Decoder, noise: CodeNoise) -> CodeTable:
        """The trained decoder in the units of a pack, and in its precision.

        Coordinates that are constant in the encoder's vectors are constant in the releases too: the smallest deviation
        would be a large one after a standardisation.
        """
        unit = float(features(torch.ones(1, decoder.codes), torch.ones(1))[0, 0])
        scale = self._varies / _TARGET_SCALE
        layers = [(layer.weight.data, layer.bias.data) for layer in decoder.layers]
        layers[-1:] = [(weight * scale[:, None], bias * scale) for weight, bias in layers[-1:]]
        return CodeTable(
            noise,
            half((decoder.linear.weight.data.T * (unit * scale)).numpy()),
            half((decoder.linear.bias.data * scale + self._mean).numpy()),
            tuple((half(weight.numpy()), half(bias.numpy())) for weight, bias in layers),
        )


def placed(vectors: FloatArray, space: Space) -> CodeArray:
    """Return the places of sentence vectors in a space: int8 `[n, r]`."""
    projection = Projection(space, torch.device("cpu"))
    chunks = (torch.from_numpy(vectors[start : start + _ROWS]) for start in range(0, len(vectors), _ROWS))
    return np.concatenate([projection.coordinates(chunk).numpy() for chunk in chunks])


def _sums(rows: torch.Tensor, document: torch.Tensor, count: int) -> torch.Tensor:
    return torch.zeros(count, rows.shape[1]).index_add(0, document, rows)


def _weighted(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (values * weight).sum() / weight.sum()

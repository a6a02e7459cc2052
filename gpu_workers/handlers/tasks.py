"""The tasks and results of the embed role. The front end builds the tasks, so this module does not import torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from core.files.disk import FileVersion
from core.mechanisms.vectors.spec import VectorSpec
from gpu_workers.engine.arrays import Block, BlockArray
from gpu_workers.engine.protocol import Divided, Joined, Task

# A token of the encoder takes tens of microseconds. A row takes one or two microseconds, or a millisecond with the
# codebook mechanism, which reads every entry.
_ROWS_PER_TOKEN = 16
_CODEBOOK_TOKENS_PER_ROW = 16
_TOKENS_PER_TEXT_MAX = 512  # of most encoders; the bundled one truncates at 256
_CHARS_READ_PER_TOKEN = 64  # at most a microsecond for each character (`gpu_workers.models.pieces`)


@dataclass(frozen=True)
class EmbedTask:
    """One document to release: its sentences (or windows of words), or their unit-normalised embeddings `float32 [k,
    d]`.

    `encoded`: the embeddings are those of this gateway's encoder. `domain` is the name of a pack, or `auto` for one
    that is chosen privately. `pack` is the file of a domain that the worker has not loaded at its start. `by_counts`:
    the price is valid only for noise on counts, so a pack with other noise is refused.
    """

    sentences: tuple[str, ...] | None
    embeddings: npt.NDArray[np.float32] | None
    mechanism: str
    domain: str
    epsilon_nano: int
    pack: FileVersion | None = None
    by_counts: bool = False
    encoded: bool = False

    @property
    def size(self) -> int:
        """The number k of sentences or windows. It is public, except for mechanisms that protect the whole document."""
        return len(self.sentences) if self.sentences is not None else len(self.embeddings)  # type: ignore[arg-type]

    @property
    def weight(self) -> int:
        """Estimated tokens; of embeddings, one for each."""
        if self.sentences is None:
            return self.size
        return _tokens(self.sentences)

    def pieces(self, weight_max: int) -> Divided | None:
        """Encode parts of the sentences one after the other, then release the whole document.

        The released distribution is that of the undivided task: the encoder computes the same vector of a sentence in
        every batch (its self-check), no piece draws noise, and the mechanism gets the vectors of all sentences.
        """
        if self.sentences is None:
            return None

        def join(parts: Sequence[Encoded]) -> Task:
            if len({part.worker for part in parts}) != 1:  # a worker has checked that its own vectors agree, no others
                return Task(self, self.weight)  # once more: no piece drew noise
            embeddings = np.concatenate([part.vectors for part in parts])
            whole = replace(self, sentences=None, embeddings=embeddings, encoded=True)
            return Task(whole, whole.weight)

        tasks = [EncodeTask(self.sentences[part], self.pack) for part in _ranges(self.sentences, weight_max)]
        return Divided([Task(task, task.weight) for task in tasks], join)


@dataclass(frozen=True)
class EncodeTask:
    """Some sentences of a document, to encode. Its result is `Encoded`; nothing is released.

    `pack`: what the document is released with afterwards, so that a worker without it refuses the first piece.
    """

    sentences: tuple[str, ...]
    pack: FileVersion | None = None

    @property
    def weight(self) -> int:
        """Estimated tokens, as in `EmbedTask`."""
        return _tokens(self.sentences)


@dataclass(frozen=True)
class Encoded:
    """The vectors of sentences `float32 [k, d]`, and the id of the worker process that computed them."""

    vectors: npt.NDArray[np.float32]
    worker: str


@dataclass(frozen=True)
class PublicProjection:
    """A projection that was computed elsewhere: `core.mechanisms.vectors.projection.Projection` without its names."""

    matrix: BlockArray
    spectral_norm_bound: float


@dataclass(frozen=True)
class VectorTask:
    """Vectors to release with one spec: `texts` to encode, or `vectors` float16, float32 or float64 `[n, d]`.

    The worker writes them to `released`, float32 or float16 `[n, m]`. Its result is the number of rows. `projection`
    and `codebook` (codes int8 `[N, m]`) are public matrices of the spec and the tenant. The worker computes what is
    None, which takes seconds for a large one.
    """

    spec: VectorSpec
    tenant: str
    released: BlockArray
    texts: tuple[str, ...] | None = None
    vectors: BlockArray | None = None
    projection: PublicProjection | None = None
    codebook: BlockArray | None = None

    @property
    def blocks(self) -> list[Block]:
        """The memory that the worker needs. Each block is listed once."""
        matrix = None if self.projection is None else self.projection.matrix
        arrays = [array for array in (self.released, self.vectors, matrix, self.codebook) if array is not None]
        return list({id(array.block): array.block for array in arrays}.values())

    @property
    def weight(self) -> int:
        """Estimated tokens, as in `EmbedTask`. Many vectors exceed a batch and run in pieces."""
        rows = self.released.shape[0]
        own = rows * _CODEBOOK_TOKENS_PER_ROW if self.spec.mechanism == "codebook" else rows // _ROWS_PER_TOKEN + 1
        return own + _tokens(self.texts or ())

    @property
    def any_worker(self) -> bool:
        """Each vector is released by itself, and their number decides what runs together. Texts are cut by their
        lengths, which would decide where another text is encoded."""
        return self.texts is None

    def pieces(self, weight_max: int) -> Divided:
        """Release ranges of rows one after the other. Each row is a unit that is drawn independently of the others."""
        rows = self.released.shape[0]
        if self.texts is None:
            step = max(1, rows * weight_max // self.weight)
            ranges: list[slice] = [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
        else:
            own = self.weight - _tokens(self.texts)
            ranges = list(_ranges(self.texts, weight_max, each=-(-own // rows)))
        tasks = [
            replace(
                self,
                released=self.released.rows(part),
                texts=None if self.texts is None else self.texts[part],
                vectors=None if self.vectors is None else self.vectors.rows(part),
            )
            for part in ranges
        ]
        return Divided([Task(task, task.weight) for task in tasks], lambda counts: Joined(sum(counts)))


@dataclass(frozen=True)
class ClassifyTask:
    """Rows of one text, or of two for a classifier of pairs, for the classifier in the file `model`. The result is the
    probability of each label, float32 `[rows, labels]`. Nothing is drawn."""

    rows: tuple[tuple[str, ...], ...]
    model: FileVersion
    any_worker = True

    @property
    def weight(self) -> int:
        """Estimated tokens, as in `EmbedTask`."""
        return _tokens(self._joined)

    @property
    def _joined(self) -> list[str]:
        return [" ".join(row) for row in self.rows]

    def pieces(self, weight_max: int) -> Divided:
        """Classify ranges of rows one after the other."""
        tasks = [replace(self, rows=self.rows[part]) for part in _ranges(self._joined, weight_max)]
        return Divided([Task(task, task.weight) for task in tasks], lambda found: Joined(np.concatenate(found)))


def _tokens(texts: Sequence[str]) -> int:
    """Estimated work for texts that are encoded one by one, in tokens: one for about four characters, up to the
    encoder's limit, and two markers each. The encoder does not run on the rest of a text, which may have to be read."""
    return sum(min(len(text) // 4, _TOKENS_PER_TEXT_MAX) + len(text) // _CHARS_READ_PER_TOKEN + 2 for text in texts)


def _ranges(texts: Sequence[str], weight_max: int, *, each: int = 0) -> Iterator[slice]:
    """Consecutive ranges of `texts` of a weight of at most `weight_max`, or of one text. `each`: more weight a text."""
    start = weight = 0
    for index, text in enumerate(texts):
        own = _tokens([text]) + each
        if index > start and weight + own > weight_max:
            yield slice(start, index)
            start, weight = index, 0
        weight += own
    yield slice(start, len(texts))


@dataclass(frozen=True)
class EmbedRelease:
    """A released document embedding `float32 [d]` and its space: `encoder` or `recoded`.

    `domain`: the pack that was chosen privately, for a task that left the choice open; else None.
    """

    vector: npt.NDArray[np.float32]
    space: str
    domain: str | None = None

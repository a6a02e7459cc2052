"""The entity tagger maps documents to spans of named entities, many documents in a batch.

One class serves two sources: the adapter shipped for the bundled encoder, and an operator's token classifier. On a CPU,
the shipped one runs without transformers (`PackedTagger`, in floating point).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import regex  # type: ignore[import-untyped]
import torch
from torch.nn.functional import embedding, linear

from core.text.policy import TAGGED_SCORE_MIN
from gpu_workers.models.embedded import AdapterInfo, TaggerNet, embedded_vocabulary, load_embedded, packed_adapter
from gpu_workers.models.integer.bert import fastest_way
from gpu_workers.models.integer.compiled import keep_compiled
from gpu_workers.models.packed_bert import Group
from gpu_workers.models.pieces import Pieces, Window, batches, padded, pieces_of, windows
from gpu_workers.models.pretrained import Vocabulary, load_pretrained
from gpu_workers.models.sources import MeasuredFolder

_STEP = 8  # the padded length of a row is a multiple: the first use of a shape takes about 3 ms


class PackedTagger:
    """Logits of the labels for every piece, equal to those of `TaggerNet` up to rounding. `info`: the adapter's
    metadata."""

    def __init__(self, path: Path | None, dtype: torch.dtype | None) -> None:
        """See `packed_adapter`."""
        loaded = packed_adapter("tagger", path, dtype)
        self.info = loaded.info
        self._bert = loaded.bert
        self._case = loaded.tensors["case"]
        self._head = loaded.tensors["head.weight"], loaded.tensors["head.bias"]

    def __call__(self, ids: torch.Tensor, cases: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map `ids`, `cases` int64 and `mask` `[rows, length]` to logits `[rows, length, labels]`. Most of the padding
        is not computed, and its logits are 0."""
        lengths = [min(-(-int(size) // _STEP) * _STEP, ids.shape[1]) for size in mask.sum(dim=1)]
        groups: list[Group] = []
        added = []
        first = 0
        for length, rows in groupby(lengths):
            own = slice(first, first := first + len(list(rows)))
            groups.append((ids[own, :length], mask[own, :length].bool()))
            added.append(embedding(cases[own, :length].reshape(-1), self._case))
        blocks = self._bert(groups, torch.cat(added))
        logits = torch.zeros((*ids.shape, len(self._head[1])), dtype=self._head[1].dtype)
        first = 0
        for block in blocks:
            logits[first : first + len(block), : block.shape[1]] = linear(block, *self._head)
            first += len(block)
        return logits


FloatArray = npt.NDArray[np.float32]
# ids, cases, attention mask `[rows, length]` to logits `[rows, length, labels]`
Forward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

_MARK_MIN = 0.5  # the least probability of a punctuation mark that joins two words to one name
_TOKENS_MAX = 256  # on a CPU: less padding, shares for several threads, and the output of a layer stays in the cache
_TOKENS_MAX_GPU = 65_536
_BRIDGE_MAX = 2
_OVERLAP = 8  # the overlap is 1/8 of a window; twice as much found no more names and took a sixth longer
_EMOJI = regex.compile(
    r"[\p{Extended_Pictographic}\p{Regional_Indicator}][\p{Emoji_Modifier}\p{Extended_Pictographic}\p{Regional_Indicator}\ufe0f\u200d]*+"
)
_MARKS = ("Mn", "Mc", "Me", "Cf")
# A password may end with any mark, and the whole of a key between two spaces is one.
_CREDENTIALS = ("PASSWORD", "SECRET", "USERNAME")
_TYPES = {"PER": "PERSON", "LOC": "LOCATION", "GPE": "LOCATION", "FAC": "LOCATION", "ORG": "ORGANIZATION"}


@dataclass(frozen=True)
class Entity:
    """Characters `start:end` (code points) of a document name a `type`. `score` is the probability, for the surest
    word, of being a name."""

    start: int
    end: int
    type: str
    score: float


class _Span(NamedTuple):
    """The words of one name. `weights`: the sum of their probabilities of each type. `score`: that of the surest
    word."""

    start: int
    end: int
    weights: FloatArray
    score: float

    @property
    def kind(self) -> int:
        return int(self.weights.argmax())

    def with_next(self, word: _Span) -> _Span:
        return _Span(self.start, word.end, self.weights + word.weights, max(self.score, word.score))


@dataclass(frozen=True)
class _Label:
    type: str | None
    begins: bool


def _label(name: str) -> _Label:
    """Parse `O`, `PERSON`, `B-PER`, `I-PER`, `U-PER`, ... into a type and whether an entity starts at this word."""
    if name == "O":
        return _Label(None, False)
    prefix, dash, rest = name.partition("-")
    if not dash or prefix not in ("B", "I", "E", "S", "L", "U", "M"):
        prefix, rest = "", name
    return _Label(_TYPES.get(rest.upper(), rest.upper()), prefix in ("B", "S", "U"))


class EntityTagger:
    """Guarantee: every piece of every document is read, with context on both sides, or `tag` raises.

    Documents are read together. In floating point, the other documents may change the last digits of a probability. No
    privacy guarantee relies on the tagger: the positions of the masks are public. `types`: the types that it can find.
    A word is tagged as a whole: the probabilities of its pieces are averaged.
    """

    def __init__(
        self,
        *,
        vocabulary: Vocabulary,
        labels: Sequence[str],
        forward: Forward,
        device: torch.device,
        name: str,
        threads: int = 1,
    ) -> None:
        """`threads`: that read batches side by side, each with one thread of torch. With 1, batches are read one after
        another, with all threads of torch. Raises ValueError if the labels name no type, or lack `O`."""
        self._labels = [_label(label) for label in labels]
        self.types = tuple(sorted({label.type for label in self._labels if label.type}))
        if "O" not in labels or not self.types or any(kind.startswith("LABEL_") for kind in self.types):
            raise ValueError("the tagger's labels do not name entity types beside O")
        self.name = name
        self._vocabulary = vocabulary
        self._forward = forward
        self._device = device
        self._begun: WeakSet[Iterator[FloatArray]] = WeakSet()  # results that somebody has still to wait for
        self._pool: ThreadPoolExecutor | None = None
        if threads > 1:
            self._pool = ThreadPoolExecutor(threads, "tagger", initializer=partial(torch.set_num_threads, 1))
        self._tokens_max = _TOKENS_MAX_GPU if device.type == "cuda" else _TOKENS_MAX
        # Column t marks the labels of type t; the last column marks the labels of no type.
        kinds = [*self.types, None]
        self._columns = np.array([[label.type == kind for kind in kinds] for label in self._labels], dtype=np.float32)
        self._begins = np.array([label.begins for label in self._labels])

    def tag(self, documents: Sequence[str]) -> list[list[Entity]]:
        """Return the entities of each document in order of position, without overlap.

        Raises: RuntimeError if the model gives a number that is not finite.
        """
        return self.begin(documents)()

    def begin(self, documents: Sequence[str], between: Callable[[], object] = bool) -> Callable[[], list[list[Entity]]]:
        """Begin to read the documents. Returns what waits for the result of `tag`. With one thread, that does all the
        work. It calls `between` between two batches. Other documents that are tagged before it has ended are read on
        the calling thread, and do not wait for what the other threads still have to do."""
        encodings = self._vocabulary.tokenizer.encode_batch([*map(_readable, documents)], add_special_tokens=False)
        pieces = [pieces_of(text, item) for text, item in zip(documents, encodings, strict=True)]
        probabilities = self._probabilities(pieces, between)

        def entities() -> list[list[Entity]]:
            return [
                list(self._entities(text, own, rows))
                for text, own, rows in zip(documents, pieces, probabilities(), strict=True)
            ]

        return entities

    def reads_all(self, text: str) -> bool:
        """Whether every letter and digit of `text` is in some piece. A tokeniser may drop or misplace characters."""
        pieces = pieces_of(text, self._vocabulary.tokenizer.encode(_readable(text), add_special_tokens=False))
        read = np.zeros(len(text), dtype=bool)
        for start, end in zip(pieces.starts, pieces.ends, strict=True):
            read[start:end] = True
        return all(seen or not character.isalnum() for seen, character in zip(read, text, strict=True))

    def _probabilities(self, pieces: Sequence[Pieces], between: Callable[[], object]) -> Callable[[], list[FloatArray]]:
        """Begin to read the pieces. Returns what waits for the probability of each label at each piece, `[pieces,
        labels]` for each document."""
        size = self._vocabulary.window
        cut = [w for n, own in enumerate(pieces) for w in windows(n, len(own), size=size, overlap=size // _OVERLAP)]
        parts = [
            [cut[number] for number in numbers]
            for numbers in batches([window.end - window.start + 2 for window in cut], self._tokens_max)
        ]
        if self._pool is None or self._begun:
            results: Iterator[FloatArray] = (self._rows(pieces, chosen) for chosen in parts)
        else:
            results = self._pool.map(partial(self._rows, pieces), parts)
        self._begun.add(results)

        def wait() -> list[FloatArray]:
            out = [np.full((len(own), len(self._labels)), np.nan, dtype=np.float32) for own in pieces]
            try:
                for chosen, rows in zip(parts, results, strict=True):
                    for row, window in zip(rows, chosen, strict=True):
                        self._place(out[window.document], row, window)
                    between()
            finally:
                self._begun.discard(results)
            if not all(np.isfinite(rows).all() for rows in out):
                raise RuntimeError("the tagger gave a probability that is not finite")
            return out

        return wait

    @torch.inference_mode()
    def _rows(self, pieces: Sequence[Pieces], chosen: Sequence[Window]) -> FloatArray:
        """Return the probabilities in one batch of windows, `[windows, length, labels]`."""
        ids = [self._framed(pieces[w.document].ids[w.start : w.end]) for w in chosen]
        cases = [np.pad(pieces[w.document].cases[w.start : w.end], 1) for w in chosen]
        mask = padded([np.ones(len(row), dtype=np.int64) for row in ids], 0, self._device)
        logits = self._forward(padded(ids, self._vocabulary.pad, self._device), padded(cases, 0, self._device), mask)
        rows: FloatArray = torch.softmax(logits.float(), dim=-1).cpu().numpy()
        return rows

    def _framed(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.concatenate([[self._vocabulary.start], ids, [self._vocabulary.end]])

    @staticmethod
    def _place(out: FloatArray, row: FloatArray, window: Window) -> None:
        shift = 1 - window.start  # the frame's first token precedes the window's first piece
        out[window.own_start : window.own_end] = row[window.own_start + shift : window.own_end + shift]

    def _entities(self, text: str, pieces: Pieces, probabilities: FloatArray) -> Iterator[Entity]:
        if not len(pieces):
            return
        firsts = np.flatnonzero(np.diff(pieces.words, prepend=-2))
        counts = np.diff(np.append(firsts, len(pieces)))
        words = np.add.reduceat(probabilities, firsts, axis=0) / counts[:, None]
        lasts = firsts + counts - 1
        by_type: FloatArray = (words @ self._columns).astype(np.float32)
        begins = self._begins[probabilities[firsts].argmax(axis=1)]
        spans: list[_Span] = []
        for number in np.flatnonzero(1 - by_type[:, -1] >= TAGGED_SCORE_MIN):
            start, end = _written(text, int(pieces.starts[firsts[number]]), int(pieces.ends[lasts[number]]))
            if start == end:
                continue  # a byte-level vocabulary has pieces for line breaks
            word = _Span(start, end, by_type[number, :-1], float(1 - by_type[number, -1]))
            if word.score < _MARK_MIN and not text[start].isalnum():
                continue
            if spans and not begins[number] and self._one_name(text, spans[-1], word):
                spans[-1] = spans[-1].with_next(word)
            else:
                spans.append(word)
        for span in spans:
            kind = self.types[span.kind]
            start, end = (span.start, span.end) if kind in _CREDENTIALS else _trimmed(text, span.start, span.end)
            if start < end:
                yield Entity(start, end, kind, span.score)

    def _one_name(self, text: str, before: _Span, word: _Span) -> bool:
        """Whether two words belong to one name. Words of one type do if only marks that occur in names separate them.
        Words of two types do if one space separates them: two names are rarely adjacent like that, while the tagger may
        give words of one name different types by mistake."""
        gap = text[before.end : word.start]
        kinds = self.types[before.kind], self.types[word.kind]
        if any(kind in _CREDENTIALS for kind in kinds):
            return kinds[0] == kinds[1] and not gap.strip() and "\n" not in gap
        if before.kind != word.kind:
            return gap == " " and text[word.start].isalnum()
        return _joined(gap, self.types[word.kind])


def _readable(text: str) -> str:
    """Return `text` with spaces for emoji beside letters, which a tokeniser would read as one unknown word."""
    return str(_EMOJI.sub(_blank_beside_letters, text))


def _blank_beside_letters(emoji: regex.Match[str]) -> str:
    start, end = emoji.span()
    beside = emoji.string[max(0, start - 1) : start] + emoji.string[end : end + 1]
    return " " * (end - start) if any(map(str.isalpha, beside)) else str(emoji.group())


def _written(text: str, start: int, end: int) -> tuple[int, int]:
    """Trim a word's leading spaces, which some vocabularies include, and add the combining marks after its last letter,
    which some omit."""
    while start < end and text[start].isspace():
        start += 1
    while start < end < len(text) and unicodedata.category(text[end]) in _MARKS:
        end += 1
    return start, end


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Let a name begin and end with a letter, a digit or a mark that combines with one, or end with the bracket that it
    opens: `Milano (MI)`."""
    while start < end and not text[start].isalnum():
        start += 1
    while start < end and not (text[end - 1].isalnum() or unicodedata.category(text[end - 1]) in _MARKS):
        end -= 1
    if text[end : end + 1] == ")" and text.count("(", start, end) > text.count(")", start, end):
        end += 1
    return start, end


def _joined(gap: str, kind: str) -> bool:
    """Whether the text between two words of one type is part of one name: spaces, or the mark in O'Neil or U.S."""
    if not gap.strip():
        return kind == "LOCATION" or "\n" not in gap  # an address has several lines
    return len(gap) <= _BRIDGE_MAX and not any(c.isspace() or c.isalnum() for c in gap)


def embedded_tagger(
    path: Path | None = None, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> EntityTagger:
    """Load the tagger on the bundled encoder, from the shipped adapter or another one made for that encoder.

    `dtype`: by default, the shipped tagger runs in 8-bit integers on a processor that multiplies them fast, and every
    other one in the device's fastest type.

    Raises: ValueError for a file that is not such an adapter.
    """
    own = torch.device(device)
    forward: Forward
    info: AdapterInfo
    if own.type == "cpu" and path is None and dtype is None and fastest_way() == "integers":
        keep_compiled(MeasuredFolder.path)
        from gpu_workers.models.integer.bert import IntegerTagger

        forward = integer = IntegerTagger()
        info = integer.info
    elif own.type == "cpu":
        forward = packed = PackedTagger(path, dtype)
        info = packed.info
    else:
        info, forward = load_embedded(
            "tagger", lambda bert, info: TaggerNet(bert, len(info.labels)), path, device=own, dtype=dtype
        )
    return EntityTagger(
        vocabulary=embedded_vocabulary(),
        labels=info.labels,
        forward=forward,
        device=own,
        name="embedded",
        threads=torch.get_num_threads() if own.type == "cpu" else 1,
    )


def pretrained_tagger(path: Path, *, device: torch.device | str = "cpu") -> EntityTagger:
    """Load a transformers token classifier (BERT, RoBERTa, ...) from a local folder.

    Raises: ValueError for a folder that `load_pretrained` refuses, or labels that name no types.
    """
    from transformers import AutoModelForTokenClassification

    own = torch.device(device)
    model, vocabulary = load_pretrained(path, AutoModelForTokenClassification, device=own)
    labels = [str(model.config.id2label[number]) for number in range(model.config.num_labels)]

    def forward(ids: torch.Tensor, _cases: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(input_ids=ids, attention_mask=mask).logits
        return logits

    return EntityTagger(vocabulary=vocabulary, labels=labels, forward=forward, device=own, name=path.name)

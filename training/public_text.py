"""Public documents and their sentence embeddings, for building the shipped packs and for benchmarks.

The cache holds embeddings only, no text. It is outside the repository.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.text.segment import sentences
from gpu_workers.domains.spec import Embedded

if TYPE_CHECKING:
    from gpu_workers.models.encoder import Encoder

SENTENCES_MIN = 8
SENTENCES_USED = 24
_SHARD = 100


@dataclass(frozen=True)
class Document:
    """One public document: its sentences, and its label if the corpus has one."""

    sentences: list[str]
    label: str = ""


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def _kept(
    texts: Iterable[tuple[str, str]], limit: int, least: int = SENTENCES_MIN, most: int = SENTENCES_USED
) -> list[Document]:
    """The first `limit` documents of at least `least` sentences, of which the first `most` are used, ordered by the
    checksum of their text."""
    ordered = sorted(texts, key=lambda item: zlib.crc32(item[0].encode("utf-8", "replace")))
    kept: list[Document] = []
    for text, label in ordered:
        parts = sentences(text)
        if len(parts) >= least:
            kept.append(Document(parts[:most], label))
        if len(kept) == limit:
            break
    return kept


def newsgroups(
    data: Path,
    split: str,
    limit: int,
    least: int = SENTENCES_MIN,
    most: int = SENTENCES_USED,
    *,
    groups: bool = False,
) -> list[Document]:
    """20 Newsgroups. The label is the group's first component, one of seven topics, or with `groups` the group.

    A row whose group has no dot is a stray file of the archive.
    """
    rows = json_lines(data / "20news" / f"{split}.jsonl.gz")
    texts = ((str(row["text"]), str(row["group"])) for row in rows if "." in str(row["group"]))
    return _kept(((text, group if groups else group.split(".")[0]) for text, group in texts), limit, least, most)


def imdb(data: Path, split: str, limit: int, least: int = SENTENCES_MIN, most: int = SENTENCES_USED) -> list[Document]:
    """IMDB reviews. The label is the sentiment."""
    rows = json_lines(data / "imdb" / f"{split}.jsonl.gz")
    texts = ((str(row["text"]).replace("<br />", "\n"), str(row["label"])) for row in rows)
    return _kept(texts, limit, least, most)


def reviews(data: Path, limit: int, least: int) -> list[Document]:
    """Product reviews, one file for each kind of product. The label is the kind and the sentiment: "baby/0".

    A line has the sentiment, a tab and the text in tokens, whose spaces before punctuation are removed.
    """
    texts = []
    for path in sorted((data / "reviews").glob("*.task.train")):
        for line in path.read_text("utf-8", "replace").splitlines():
            sentiment, _, tokens = line.partition("\t")
            text = re.sub(r" (n't|['.,!?;:)])", r"\1", tokens).replace("( ", "(")
            texts.append((text, f"{path.name.split('.')[0]}/{sentiment}"))
    return _kept(texts, limit, least)


def bbc(data: Path, limit: int, least: int) -> list[Document]:
    """BBC news, one folder for each topic, which is the label."""
    paths = sorted((data / "bbc").glob("*/*.txt"))
    return _kept(((path.read_text("utf-8", "replace"), path.parent.name) for path in paths), limit, least)


def pairs(data: Path, name: str, limit: int) -> list[Document]:
    """The texts of a corpus of sentence pairs of GLUE, each a document of its own."""
    rows = json_lines(data / "glue" / f"{name}_train.jsonl.gz")
    return _kept(((str(row[side]), "") for row in rows for side in ("text_a", "text_b")), limit, least=1)


def labelled_sentences(data: Path, path: str, limit: int) -> list[Document]:
    """The sentences of a corpus at `path` under `data`, each a document of its own, with its label."""
    rows = json_lines(data / path)
    return _kept(((str(row["text"]), str(row["label"])) for row in rows), limit, least=1)


def wikitext(data: Path, limit: int) -> list[Document]:
    """WikiText-2 valid and test: consecutive paragraphs of one section, joined to documents of 8 sentences or more."""
    texts: list[tuple[str, str]] = []
    for split in ("valid", "test"):
        block: list[str] = []
        for row in json_lines(data / "lm" / f"wikitext2_{split}.jsonl.gz"):
            paragraph = str(row["text"]).strip()
            if paragraph.startswith("= "):
                block = []
                continue
            block.append(paragraph)
            if len(sentences(" ".join(block))) >= SENTENCES_MIN:
                texts.append((" ".join(block), ""))
                block = []
    return _kept(texts, limit)


def embed(documents: list[Document], encoder: Encoder, cache: Path, name: str) -> Embedded:
    """Embed documents shard by shard and keep finished shards in `cache`, so that an interrupted run can resume.

    A shard's file name contains a digest of its sentences and of the encoder, so another corpus or encoder does not use
    it.
    """
    cache.mkdir(parents=True, exist_ok=True)
    parts = []
    for start in range(0, len(documents), _SHARD):
        shard = documents[start : start + _SHARD]
        digest = hashlib.sha256(f"{encoder.packs_of} {encoder.dtype}".encode())
        for document in shard:
            digest.update("\0".join(document.sentences).encode("utf-8", "replace"))
        path = cache / f"{name}-{digest.hexdigest()[:24]}.npy"
        if not path.exists():
            vectors = encoder.encode([s for document in shard for s in document.sentences])
            partial = path.with_suffix(".partial")
            with partial.open("wb") as stream:
                np.save(stream, vectors.astype(np.float16))
            partial.replace(path)
        parts.append(np.load(path).astype(np.float32))
        show(f"{name}: {min(start + _SHARD, len(documents))}/{len(documents)} documents embedded")
    show("")
    return Embedded(
        vectors=np.concatenate(parts),
        lengths=np.array([len(document.sentences) for document in documents], dtype=np.int64),
        labels=[document.label for document in documents],
    )


def show(line: str) -> None:
    """Write a progress line to the terminal."""
    sys.stderr.write("\r\x1b[K" + line if line else "\n")
    sys.stderr.flush()

"""Long documents and many vectors in pieces: the same embeddings, and the same units, as undivided."""

from dataclasses import replace
from typing import Any

import numpy as np
from pieces_kit import run_batches

from core.mechanisms.vectors.spec import vector_spec
from gpu_workers.engine.arrays import Block, BlockArray
from gpu_workers.engine.protocol import Joined, Role, Task
from gpu_workers.engine.task_queue import QueueLimits
from gpu_workers.handlers.embedder import Embedder
from gpu_workers.handlers.tasks import EmbedTask, EncodeTask, VectorTask

LINES = tuple(
    f"Sentence number {n} is about {'the weather and ' * (n % 7)}{'trains' if n % 3 else 'ships'}." for n in range(60)
)
DOCUMENT = EmbedTask(LINES, None, "sentence_codes", "general", 10**9)


def run(embedder: Embedder, *tasks: Any) -> list[Any]:
    return list(embedder.prepare(tasks)())


def test_a_document_in_pieces_has_the_same_vectors_bit_for_bit(embedder: Embedder) -> None:
    """They are then released by the mechanism as one document, so the released distribution is the same."""
    pieces = DOCUMENT.pieces(64)
    assert len(pieces.tasks) > 5
    assert all(task.weight <= 64 for task in pieces.tasks)
    other = EncodeTask(("Another document shares the batch.",))
    joined = pieces.join([run(embedder, other, task.payload)[1] for task in pieces.tasks])
    (whole,) = embedder._sentences([DOCUMENT])
    assert joined.payload.embeddings.tobytes() == whole.numpy().tobytes()
    assert joined.payload == replace(DOCUMENT, sentences=None, embeddings=joined.payload.embeddings, encoded=True)
    assert run(embedder, joined.payload)[0].vector.shape == (384,)


def test_a_document_whose_pieces_two_workers_encoded_is_run_once_more(embedder: Embedder) -> None:
    """One of them may have been started on another device, or with other numbers of threads."""
    pieces = DOCUMENT.pieces(64)
    results = [run(embedder, task.payload)[0] for task in pieces.tasks]
    again = pieces.join([replace(results[0], worker="another"), *results[1:]])
    assert again == Task(DOCUMENT, DOCUMENT.weight)


def test_a_long_text_weighs_what_the_encoder_takes_of_it() -> None:
    for length in [100_000, 1_000_000]:
        text = "漢" * length
        texts = VectorTask(
            vector_spec(mechanism="privemb", dimension=4, epsilon=1), "t", arrays(1, 4)[1], texts=(text,)
        )
        for task in (replace(DOCUMENT, sentences=(text,)), EncodeTask((text,)), texts):
            assert 256 < task.weight < 600 + length // 64


def arrays(rows: int, dimension: int) -> tuple[BlockArray, BlockArray]:
    """Vectors in a block at an offset, and the place of what is released."""
    vectors = BlockArray(Block(8 + rows * dimension * 8), "float64", (rows, dimension), 8)
    vectors.write_rows(np.arange(rows * dimension, dtype=np.float64).reshape(rows, dimension), 0)
    return vectors, BlockArray(Block(rows * dimension * 4), "float32", (rows, dimension))


def test_pieces_of_vectors_cover_every_row_once() -> None:
    for weight_max in [1, 7, 50, 10_000]:
        vectors, released = arrays(101, 4)
        spec = vector_spec(mechanism="codebook", dimension=4, epsilon=1)
        pieces = VectorTask(spec, "tenant", released, vectors=vectors).pieces(weight_max)
        for number, task in enumerate(pieces.tasks):
            own = task.payload
            own.released.write_rows(own.vectors.read().astype(np.float32), 0)
            assert own.released.shape == own.vectors.shape
            assert number == len(pieces.tasks) - 1 or task.weight <= max(weight_max, 16)
        assert released.read().tolist() == vectors.read().tolist()
        assert pieces.join([task.payload.released.shape[0] for task in pieces.tasks]) == Joined(101)


def test_pieces_of_texts_keep_their_order() -> None:
    texts = tuple(f"text {'x' * (n % 50)} {n}" for n in range(300))
    _, released = arrays(300, 4)
    pieces = VectorTask(vector_spec(mechanism="privemb", dimension=4, epsilon=1), "t", released, texts=texts).pieces(50)
    assert sum((task.payload.texts for task in pieces.tasks), ()) == texts
    assert all(len(task.payload.texts) == task.payload.released.shape[0] for task in pieces.tasks)


def test_an_engine_releases_large_tasks_in_pieces(embedder: Embedder) -> None:
    vectors, released = arrays(400, 8)
    release = VectorTask(vector_spec(mechanism="codebook", dimension=8, epsilon=1), "tenant", released, vectors=vectors)
    limits = QueueLimits(batch_tokens_max=200)
    (((document, count),), batches) = run_batches(Role.EMBED, embedder, ("a", [DOCUMENT, release]), limits=limits)
    assert len(batches) > 10
    assert np.isfinite(document.vector).all()
    assert count == 400
    assert (np.abs(released.read()).sum(axis=1) > 0).all()

"""What the embed role refuses before it draws anything."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from core.mechanisms.sentences.domain_pack import DomainPack
from core.mechanisms.sentences.pack_facts import CodeNoise
from core.mechanisms.sentences.registry import sentence_mechanism
from gpu_workers.handlers.embedder import Embedder
from gpu_workers.handlers.options import WorkerOptions
from gpu_workers.handlers.tasks import EmbedRelease, EmbedTask
from gpu_workers.packs import pack_paths


def test_a_pack_with_another_noise_than_was_priced_releases_nothing() -> None:
    """The front end prices by the facts that it read; the worker may have loaded the file at another time."""
    pack = DomainPack.load(pack_paths()["general"])
    by_noise = {
        parameters.code_noise: round(parameters.epsilon * 10**9) for parameters in pack.info.mechanism_parameters
    }
    mechanism = sentence_mechanism("sentence_codes", pack, "cpu")
    embedder = Embedder(WorkerOptions())
    embedder._encoder = SimpleNamespace(device="cpu")  # this test encodes no sentence
    embedder._mechanisms["general", "sentence_codes"] = mechanism
    drawn: list[int] = []
    release = mechanism.release
    mechanism.release = lambda documents, epsilons: drawn.extend(epsilons) or release(documents, epsilons)  # type: ignore[method-assign]

    def task(noise: CodeNoise, *, by_counts: bool) -> EmbedTask:
        rows = np.eye(2, pack.info.dimension, dtype=np.float32)
        return EmbedTask(None, rows, "sentence_codes", "general", by_noise[noise], by_counts=by_counts)

    fine = [task(CodeNoise.COUNTS, by_counts=True), task(CodeNoise.COUNTS, by_counts=False)]

    def released(*tasks: EmbedTask) -> list[bool]:
        answers = embedder._documents(tasks, embedder._sentences(tasks))
        return [isinstance(answer, EmbedRelease) for answer in answers]

    assert released(*fine, task(CodeNoise.RESPONSES, by_counts=False)) == [True] * 3
    drawn.clear()
    assert released(*fine, task(CodeNoise.RESPONSES, by_counts=True)) == [False] * 3
    assert not drawn

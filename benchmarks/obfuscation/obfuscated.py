"""The corpora as the gateway masks and fills them: `Sanitiser.run`, what a worker runs for `POST /sanitize`.

Everything is kept in the cache under a digest of what it depends on: a run that was stopped goes on, and another infill
model has its own fills done anew, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from core.amounts import NANO
from core.files.disk import FileVersion, file_version
from core.text.policy import DEFAULT_ENTITIES, MODEL_FILLS, TAGGED_ENTITIES, TOP_K, MaskPolicy, Sanitised, SanitizeTask
from gpu_workers.handlers.sanitiser import Sanitiser
from gpu_workers.infill.fine_tuning import fine_tune, shipped_net, stream_of, trained
from gpu_workers.models.embedded import SHIPPED, embedded_vocabulary, save_adapter
from gpu_workers.models.sources import INFILL_BUNDLED, TAGGER_BUNDLED
from gpu_workers.models.training_loop import CheckpointFile
from training.public_text import show

MASKS = {
    "allow_list": MaskPolicy(techniques=("allow_list",)),
    "vocabulary": MaskPolicy(techniques=("vocabulary",)),
    "entity": MaskPolicy(entities=(*DEFAULT_ENTITIES, *TAGGED_ENTITIES)),
}
_TOGETHER = 128
_SLOTS_MAX = 64


@dataclass(frozen=True)
class Obfuscated:
    """A corpus' sentences, filled, and how many of its tokens were masked."""

    texts: list[str]
    masked: int
    tokens: int


class Obfuscator:
    """`fine_tuning_steps`: of the infill model, on each corpus that it has filled itself."""

    def __init__(self, cache: Path, *, fine_tuning_steps: int) -> None:
        self._cache = cache
        self._steps = fine_tuning_steps
        self.infill, self._tagger = (
            hashlib.sha256((SHIPPED / f"{kind}.safetensors").read_bytes()).hexdigest() for kind in ("infill", "tagger")
        )

    @cached_property
    def _sanitiser(self) -> Sanitiser:
        return Sanitiser(tagger=TAGGER_BUNDLED, infill=INFILL_BUNDLED, fill_slots_max=_SLOTS_MAX, threads=1)

    def filled(
        self,
        texts: Sequence[str],
        mask: str,
        fill: str,
        *,
        epsilon: int | None = None,
        model: FileVersion | None = None,
    ) -> Obfuscated:
        """Each text under that mask with that fill. `epsilon`: of a slot, for `dp`. `model`: a fine-tuned one."""
        weights = [Path(model.path).name if model else self.infill] if fill in MODEL_FILLS else []
        weights += [self._tagger] if mask == "entity" else []
        path = self._path("filled", (list(texts), MASKS[mask], fill, epsilon, weights), "json")
        if path.exists():
            return Obfuscated(**json.loads(path.read_text()))
        nano = None if epsilon is None else epsilon * NANO
        tasks = [SanitizeTask(text, MASKS[mask], fill, nano, model=model) for text in texts]
        answers: list[Sanitised] = []
        for start in range(0, len(tasks), _TOGETHER):
            show(f"{mask}, {fill}: {start} of {len(tasks)} sentences")
            for answer in self._sanitiser.run(tasks[start : start + _TOGETHER]):
                if not isinstance(answer, Sanitised):
                    raise answer
                answers.append(answer)
        show("")
        done = Obfuscated(
            [answer.text for answer in answers],
            sum(answer.masked_tokens for answer in answers),
            sum(answer.tokens for answer in answers),
        )
        path.write_text(json.dumps(vars(done)))
        return done

    def fine_tuned(self, texts: Sequence[str], mask: str) -> Obfuscated:
        """`topk`, by a model that was fine-tuned on what `topk` had filled before (section 3.2, "FT")."""
        first = self.filled(texts, mask, TOP_K)
        path = self._path("infill", (self.infill, first.texts, self._steps), "safetensors")
        if not path.exists():
            info, net = shipped_net(torch.device("cpu"))
            tokenizer = embedded_vocabulary().tokenizer
            fine_tune(
                net,
                stream_of(tokenizer, iter(first.texts)),
                tokenizer,
                steps=self._steps,
                checkpoint=CheckpointFile(path.with_suffix(".pt")),
                progress=lambda done: show(f"{mask}: fine-tuning the infill, {done:.0%}"),
            )
            show("")
            save_adapter(path, replace(info, steps=self._steps, rounds=1, documents=len(texts)), trained(net))
            path.with_suffix(".pt").unlink()
        return self.filled(texts, mask, TOP_K, model=file_version(path))

    def _path(self, kind: str, of: object, suffix: str) -> Path:
        return self._cache / f"{kind}-{hashlib.sha256(repr(of).encode()).hexdigest()[:24]}.{suffix}"

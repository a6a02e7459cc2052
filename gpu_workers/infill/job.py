"""The infill job: train, on a tenant's documents, a language model that fills masked places in similar documents.

    survey -> in each round: mask and fill (in encrypted shards) -> fine-tune with encrypted checkpoints -> write

The model is fine-tuned on the corpus whose masked places it has filled itself. In a further round, the fine-tuned model
fills them, and training starts again from the model as it was, which is our choice (Vats et al. 2023, section 3.2,
"FT", only says that the process may be repeated).

Guarantee: none. No masked string is read by the filling model or used in training, unless it also occurs at a place
that no mask covers. The unmasked text is used in training, and the weights may reveal it. The job writes only weights,
counts and the model's name outside its encrypted folder. A resumed attempt skips the finished steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from core.errors import BadCorpus
from core.text.policy import GUARANTEE
from gpu_workers.infill.spec import InfillSpec
from gpu_workers.jobs import corpus
from gpu_workers.jobs.protocol import (
    Charge,
    EncryptedCheckpoint,
    JobOrder,
    ReportProgress,
    card,
    cell,
    kept_part,
    publish,
)

if TYPE_CHECKING:
    from gpu_workers.infill.fine_tuning import FilledTexts, FineTunable
    from gpu_workers.models.embedded import AdapterInfo

DOCUMENTS_MIN = 20
PIECES_MIN = 1_000  # about eight rows of a batch; with fewer, every step would use the same rows
_SHARD_DOCUMENTS = 32  # filled together


def run(order: JobOrder, report: ReportProgress, _charge: Charge) -> dict[str, Any]:
    """Write the adapter to every target. Returns counts and warnings. Raises JobFailed, InvalidInput."""
    spec: InfillSpec = order.spec
    report("reading", 0.0)
    found = corpus.survey(
        corpus.corpus_lines(order.received()), documents_max=spec.documents_max, chars_max=spec.document_chars_max
    )
    if found.embeddings:
        raise BadCorpus("A row must be an object with text or sentences.", reason="wrong-row", line=found.chosen[0])
    if len(found.chosen) < DOCUMENTS_MIN:
        raise _too_few(len(found.chosen))
    report("loading", 0.02)
    # with torch: a corpus that is refused needs none
    from gpu_workers.infill.fine_tuning import Obfuscator, learner
    from gpu_workers.models.device import torch_device

    device = torch_device(spec.device, spec.threads)
    trained = learner(spec.infill, device)
    obfuscator = Obfuscator(spec, device=device)
    for number in range(1, spec.rounds + 1):
        begun = (number - 1) / spec.rounds
        half = 0.5 / spec.rounds
        filled = _filled(
            order, found, number, partial(obfuscator.filled, model=trained.model), _part(report, "filling", begun, half)
        )
        pieces = trained.pieces(filled.texts)
        if len(filled.texts) < DOCUMENTS_MIN or pieces < PIECES_MIN:
            raise _too_few(len(filled.texts))
        if number > 1:
            del trained
            trained = learner(spec.infill, device)
        trained.fine_tune(
            filled.texts,
            steps=spec.steps,
            checkpoint=EncryptedCheckpoint(order, f"training-{number}"),
            progress=_part(report, "fine-tuning", begun + half, half),
        )
    report("writing", 0.98)
    result = _result(spec, found, filled, pieces=pieces)
    own = replace(trained.info, steps=spec.steps, rounds=spec.rounds, documents=len(filled.texts))
    publish(lambda path: _saved(path, own, trained), infill_card(own, result), spec.targets)
    return result


def _part(report: ReportProgress, stage: str, start: float, share: float) -> Callable[[float], None]:
    """Return a callback that reports the finished share of one part of all rounds."""
    return lambda done: report(stage, 0.04 + 0.94 * (start + share * done))


def _too_few(count: int) -> BadCorpus:
    return BadCorpus(
        f"At least {DOCUMENTS_MIN} different documents with {PIECES_MIN} word pieces in total are needed.",
        reason="too-few-documents",
        count=count,
    )


def _filled(
    order: JobOrder,
    found: corpus.Survey,
    number: int,
    fill: Callable[[Sequence[str]], FilledTexts],
    progress: Callable[[float], None],
) -> FilledTexts:
    """Return the chosen documents with their masked places filled. Every finished shard is stored encrypted."""
    documents = _documents(order, found)
    count = -(-len(found.chosen) // _SHARD_DOCUMENTS)
    shards: list[FilledTexts] = []
    for index in range(count):
        progress(index / count)
        texts = list(islice(documents, _SHARD_DOCUMENTS))
        checkpoint = EncryptedCheckpoint(order, f"filled-{number}-{index:06d}")
        shards.append(kept_part(checkpoint, partial(fill, texts), packed=orjson.dumps, unpacked=_unpacked))
    return sum(shards[1:], shards[0])


def _documents(order: JobOrder, found: corpus.Survey) -> Iterator[str]:
    for number, line in corpus.chosen_lines(order.received(), found):
        form, content, _ = corpus.parse(line, number, chars_max=order.spec.document_chars_max)
        yield content if form == "text" else " ".join(content)


def _unpacked(shard: bytes) -> FilledTexts:
    from gpu_workers.infill.fine_tuning import FilledTexts

    return FilledTexts(**orjson.loads(shard))


def _saved(path: Path, info: AdapterInfo, trained: FineTunable) -> None:
    from gpu_workers.models.embedded import load_adapter, save_adapter

    save_adapter(path, info, trained.parameters())
    load_adapter(path, info.kind, info.encoder_fingerprint)


def _result(spec: InfillSpec, found: corpus.Survey, filled: FilledTexts, *, pieces: int) -> dict[str, Any]:
    return {
        "model": spec.name,
        "rows": found.rows,
        "documents": len(filled.texts),
        "pieces": pieces,
        "places": filled.places,
        "techniques": list(spec.policy.techniques),
        "fill": spec.fill,
        "rounds": spec.rounds,
        "steps": spec.steps,
        "privacy": {"guarantee": GUARANTEE, "note": "the weights may reveal text that no mask covered"},
        "warnings": corpus.left_out(
            found,
            {"empty-documents": filled.empty, "too-many-places": filled.crowded, "unknown-language": filled.refused},
        ),
    }


def infill_card(info: AdapterInfo, result: Mapping[str, Any]) -> str:
    """The card of a fine-tuned language model."""
    return card(
        f"Language model `{result['model']}`",
        [
            "The gateway's language model, fine-tuned on documents whose masked places it had filled itself.",
            "The file holds weights, no text. **Guarantee: none.** The model was trained on all text that no mask",
            "covered, and anyone who has the file may learn this text. Protect the file like the documents.",
        ],
        {
            "documents used": f"{result['documents']} of {result['rows']} rows",
            "word pieces": result["pieces"],
            "masked places": result["places"],
            "masks": ", ".join(result["techniques"]),
            "fill": result["fill"],
            "rounds": f"{info.rounds} of {info.steps} steps",
            "made for the model": f"`{info.encoder_fingerprint}`",
            "licence of the initial model": cell(info.licence),
        },
        result,
    )

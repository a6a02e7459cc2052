"""What a tenant's fine-tuned classifiers answer: which there are, the body of a prediction, and its work.

Guarantee: a prediction is a function of released weights and of the texts of the request. For the rows of the training
it is post-processing, so the guarantee of the training holds and nothing is charged. The texts of the request are not
protected from whoever reads the answer. They are in memory for the time of the request.

A tenant sees its own classifiers only. Their files are in the blob store (`service.files.stored`), so every gateway
finds them, and names are looked up at each request.
"""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from safetensors import SafetensorError, safe_open
from typing_extensions import TypedDict

from core.errors import BlobCorrupt, BlobMissing, InstalledFileBroken, InvalidInput, StorageFull, UnknownName
from core.files.disk import FileVersion
from core.state.stored_files import CLASSIFIERS
from gpu_workers.engine.arrays import Array
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.tasks import ClassifyTask
from service.config.data_dir import NAME, check_name
from service.config.settings import TEXTS_TAKEN, Settings
from service.files.stored import StoredFiles
from service.http.answers import doc
from service.http.strict import AtMost, Strict
from service.releases.request import ReleaseRequest

_FACTS = ("model", "method", "labels", "pairs", "rows", "epsilon", "delta")
_SCORES_MAX = 500_000  # of an answer: some megabytes
_SCORE_DIGITS = 6
_NOTE = (
    "post-processing of a released model: nothing is charged; the guarantee of its training, `training`, is for the "
    "rows that it was trained on, and the texts of this request have none"
)


class PredictRequest(Strict):
    """Body of `POST /finetuned/{name}/predict`."""

    texts: Annotated[list[str], AtMost(TEXTS_TAKEN)] = Field(min_length=1)
    text_pairs: Annotated[list[str], AtMost(TEXTS_TAKEN)] | None = Field(
        None, description="The second text of each row, for a classifier of pairs."
    )


class Training(TypedDict):
    """The guarantee of a training."""

    guarantee: Annotated[str, doc("Always `approx-dp`.")]
    unit: Annotated[str, doc("Always `record`: one row.")]
    adjacency: Annotated[str, doc("Always `add-remove`.")]
    epsilon: Annotated[float, doc("The certified epsilon.")]
    delta: Annotated[float, doc("The delta.")]


class PredictionPrivacy(TypedDict):
    """What a prediction guarantees."""

    guarantee: Annotated[str, doc("Always `none`: the texts of the request are not protected.")]
    note: Annotated[str, doc("Why nothing is charged, in a sentence.")]
    training: Annotated[Training, doc("The guarantee for the rows of the training.")]


class Prediction(TypedDict):
    """The answer for a text."""

    index: Annotated[int, doc("The place of the text in the request, from 0.")]
    label: Annotated[str, doc("The label with the highest score.")]
    scores: Annotated[list[float], doc("The probability of each label by the model, in the order of `labels`.")]


class Predictions(TypedDict):
    """What a classifier answers."""

    model: Annotated[str, doc("The name of the classifier.")]
    labels: Annotated[list[str], doc("Its labels, in the order of the scores.")]
    data: Annotated[list[Prediction], doc("A row for each text, in their order.")]
    privacy: Annotated[PredictionPrivacy, doc("Why nothing is charged, and what the training guarantees.")]
    budget: Annotated[None, doc("Always null: nothing is charged.")]


@dataclass(frozen=True)
class StoredClassifier:
    """A file and the facts of its header."""

    file: FileVersion
    facts: dict[str, Any]


class Classifiers:
    """The tenants' classifiers, as one gateway sees them."""

    def __init__(self, files: StoredFiles) -> None:
        self._files = files

    async def find(self, tenant: str, name: str) -> StoredClassifier:
        """The classifier with this name. Raises UnknownName if the tenant has none, InstalledFileBroken; BlobMissing,
        BlobCorrupt, StoreUnavailable, StorageFull, LedgerUnavailable."""
        file = await self._files.find(tenant, CLASSIFIERS, name) if re.fullmatch(NAME, name) else None
        if file is None:
            raise UnknownName(code="unknown-model")
        facts = await asyncio.to_thread(_facts, file)
        if facts is None:
            raise InstalledFileBroken(code="infill-broken")
        return StoredClassifier(file, facts)

    async def of_tenant(self, tenant: str) -> list[dict[str, Any]]:
        """The tenant's classifiers with their facts. A file that cannot be used now has its name only."""
        rows = []
        for name, entry in sorted((await self._files.index.of_owner(tenant, CLASSIFIERS)).items()):
            facts = None
            try:
                file = await self._files.local(tenant, CLASSIFIERS, name, entry)
                facts = None if file is None else await asyncio.to_thread(_facts, file)
            except (BlobMissing, BlobCorrupt, StorageFull):
                pass
            rows.append({"name": name, "usable": facts is not None, **(facts or {})})
        return rows

    async def remove(self, tenant: str, name: str) -> None:
        """Delete a classifier and its card. Raises UnknownName."""
        if not await self._files.remove(tenant, CLASSIFIERS, check_name(name)):
            raise UnknownName(code="unknown-model")


def _facts(file: FileVersion) -> dict[str, Any] | None:
    """The facts in the file's header, None for one that cannot be read. A worker checks the weights."""
    try:
        with safe_open(Path(file.path), framework="numpy") as opened:
            info = json.loads((opened.metadata() or {})["info"])
        return {name: info[name] for name in _FACTS}
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def prediction(name: str, classifier: StoredClassifier, body: PredictRequest, settings: Settings) -> ReleaseRequest:
    """The work of a prediction, without a price. Raises InvalidInput with the member, which holds no text."""
    facts = classifier.facts
    labels = facts["labels"]
    rows = _rows(body, settings, pairs=facts["pairs"])
    if len(rows) * len(labels) > _SCORES_MAX:
        raise InvalidInput(
            f"at most {_SCORES_MAX // len(labels)} texts a call with {len(labels)} labels", field="texts"
        )
    training = {"guarantee": "approx-dp", "unit": "record", "adjacency": "add-remove"}
    training |= {member: facts[member] for member in ("epsilon", "delta")}

    def render(scores: Array, common: dict[str, Any]) -> dict[str, Any]:
        best = scores.argmax(axis=1)
        shown = np.round(scores.astype(np.float64), _SCORE_DIGITS)
        data = [
            {"index": index, "label": labels[int(place)], "scores": shown[index].tolist()}
            for index, place in enumerate(best)
        ]
        return {"model": name, "labels": labels, "data": data, **common}

    task = ClassifyTask(rows, classifier.file)
    return ReleaseRequest(
        charges=(),
        role=Role.EMBED,
        tasks=[Task(task, task.weight)],
        render=render,
        collect=lambda results: results[0],
        answer_size=lambda scores: scores.size,
        privacy={"note": _NOTE, "training": training},
    )


def _rows(body: PredictRequest, settings: Settings, *, pairs: bool) -> tuple[tuple[str, ...], ...]:
    """The rows of the request, each with one text or two."""
    if pairs != (body.text_pairs is not None):
        said = (
            "this classifier reads pairs: give as many text_pairs as texts"
            if pairs
            else "this classifier reads no pairs"
        )
        raise InvalidInput(said, field="text_pairs")
    if len(body.texts) > settings.embedded_texts_max:
        raise InvalidInput(f"at most {settings.embedded_texts_max} texts a call", field="texts")
    if body.text_pairs is not None and len(body.text_pairs) != len(body.texts):
        raise InvalidInput("give as many text_pairs as texts", field="text_pairs")
    for member, texts in (("texts", body.texts), ("text_pairs", body.text_pairs or [])):
        for index, text in enumerate(texts):
            if not text.strip():
                raise InvalidInput("a text must hold something", field=f"{member}.{index}")
            if len(text) > settings.document_chars_max:
                said = f"at most {settings.document_chars_max} characters a text"
                raise InvalidInput(said, field=f"{member}.{index}")
    return tuple(zip(body.texts, body.text_pairs, strict=True)) if body.text_pairs else tuple((t,) for t in body.texts)

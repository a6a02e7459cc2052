"""Fills of a language model: from a request's parameters to what its price depends on.

All of it happens before anything is reserved. Texts are read only to count their words, with the worker's tokeniser.

A tenant may name the language models that it has fine-tuned by `POST /jobs/infill`; models of other tenants are not
visible. They are in the blob store (`service.files.stored`), so every gateway finds them. Names are looked up at each
request, so that what a job stores can be used at once.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from core.errors import BlobCorrupt, BlobMissing, InvalidInput, StorageFull, UnknownName
from core.files.disk import FileVersion
from core.mechanisms.words.pricing import DOCUMENT
from core.state.stored_files import MODELS
from core.text.policy import DP, MODEL_FILLS, TOP_1, TOP_K
from core.text.segment import count_tokens
from gpu_workers.engine.protocol import Role
from gpu_workers.facts import InfillFacts
from service.config.data_dir import NAME, check_name
from service.files.stored import StoredFiles
from service.workers import Workers

_FACTS = ("documents", "rounds", "steps")


class TunedModels:
    """The tenants' models, as one gateway sees them."""

    def __init__(self, files: StoredFiles) -> None:
        self._files = files

    async def find(self, tenant: str, name: str) -> FileVersion:
        """The model with this name. Raises InvalidInput if the tenant has none; BlobMissing, BlobCorrupt,
        StoreUnavailable, StorageFull, LedgerUnavailable."""
        file = await self._files.find(tenant, MODELS, name) if re.fullmatch(NAME, name) else None
        if file is None:
            raise InvalidInput("no such model; GET /models lists your own", field="fill.model")
        return file

    async def of_tenant(self, tenant: str) -> list[dict[str, Any]]:
        """The tenant's models with their facts. A file that cannot be used now has its name only."""
        rows = []
        for name, entry in sorted((await self._files.index.of_owner(tenant, MODELS)).items()):
            try:
                file = await self._files.local(tenant, MODELS, name, entry)
            except (BlobMissing, BlobCorrupt, StorageFull):
                file = None
            rows.append({"name": name, **await asyncio.to_thread(_facts, file)})
        return rows

    async def remove(self, tenant: str, name: str) -> None:
        """Delete a model and its card. Raises UnknownName."""
        if not await self._files.remove(tenant, MODELS, check_name(name)):
            raise UnknownName(code="unknown-model")


def _facts(file: FileVersion | None) -> dict[str, Any]:
    """The facts in the file's header. A worker checks the weights before it uses them."""
    try:
        if file is None:
            return {"usable": False}
        with safe_open(Path(file.path), framework="numpy") as opened:
            info = json.loads((opened.metadata() or {})["info"])
        return {"usable": True, **{name: int(info[name]) for name in _FACTS}}
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return {"usable": False}


GUESSED = "the model has not read what was masked, and may guess it; kept text is unprotected"
DRY_RUN = "nothing was filled; what was not found would stay in the output"
REVERSIBLE = "whoever has the token and a key of this tenant can put the originals back; kept text is unprotected"
FINE_TUNED = "the model may tell what no mask covered in the documents that it was fine-tuned on; " + GUESSED
_K_MAX = 100  # a longer list adds only less likely words


def infill_facts(workers: Workers, mode: str) -> InfillFacts | None:
    """What the fill workers report of their language model; None for a fill that needs none.

    Raises WorkerCold until a worker was ready, InvalidInput where none runs or none can fill by this mode.
    """
    if mode not in MODEL_FILLS:
        return None
    infill = workers.infill
    if infill is None or mode not in infill.modes:
        raise InvalidInput("this gateway runs no language model that fills so; GET /models", field="fill.mode")
    return infill


def role_of(mode: str, *, dry_run: bool) -> Role:
    """The workers that fill by this mode, or find without filling."""
    return Role.FILL if mode in MODEL_FILLS and not dry_run else Role.SANITIZE


async def tuned_model(models: TunedModels, tenant: str, *, mode: str, name: str | None) -> FileVersion | None:
    """The tenant's fine-tuned model of that name; None where none is named.

    Raises InvalidInput for a name that is not the tenant's, and for a fill that takes none: the guarantee of `dp` is
    for a public model, and weights that were trained on documents are not public.
    """
    if name is None:
        return None
    if mode not in (TOP_1, TOP_K):
        raise InvalidInput(f"only the fills `{TOP_1}` and `{TOP_K}` take a fine-tuned model", field="fill.model")
    return await models.find(tenant, name)


def check_options(
    *, mode: str, k: int | None, scope: str | None, techniques: Sequence[str] | None, spans: bool
) -> None:
    """Refuse options that do not fit the fill. `techniques`: as the caller has named them.

    Raises InvalidInput for an option of another fill, a `k` that is too large, and what would reveal facts of a text
    whose scope is `document`.
    """
    if k is not None and (mode != TOP_K or k > _K_MAX):
        raise InvalidInput(f"k is of the fill `{TOP_K}` alone, and at most {_K_MAX}", field="fill.k")
    if scope is not None and mode != DP:
        raise InvalidInput(f"only the fill `{DP}` has a scope", field="fill.scope")
    if scope == DOCUMENT:
        if techniques is not None and list(techniques) != ["all"]:
            raise InvalidInput("the scope `document` fills every word: name no mask but `all`", field="mask.techniques")
        if spans:
            raise InvalidInput("spans would tell of the document", field="return_spans")


def candidates_facts(infill: InfillFacts) -> dict[str, Any]:
    """The public list that `dp` draws from, as an answer's privacy block names it."""
    return {"candidates": infill.candidates, "candidates_fingerprint": infill.candidates_fingerprint}


def check_places(texts: Sequence[str], *, whole: bool, places_max: int) -> None:
    """Raises InvalidInput for more words than `dp` fills: in all texts together where each word is a place, else in
    one text. A text is read no further than the limit."""
    left = places_max
    for index, text in enumerate(texts):
        words = count_tokens(text, stop=left + 1)
        if words > left:
            what = "words a call" if whole else "words a document"
            raise InvalidInput(f"by `{DP}` at most {places_max} {what}", field=f"documents.{index}.text")
        left -= words if whole else 0

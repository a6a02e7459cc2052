"""Fills of a language model: from a request's parameters to what its price depends on.

All of it happens before anything is reserved. Texts are read only to count their words, with the worker's tokeniser.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.errors import InvalidInput
from core.files.disk import FileVersion
from core.mechanisms.words.pricing import DOCUMENT
from core.text.policy import DP, MODEL_FILLS, TOP_1, TOP_K
from core.text.segment import count_tokens
from gpu_workers.engine.protocol import Role
from gpu_workers.facts import InfillFacts
from service.sanitize.tuned_models import TunedModels
from service.workers import Workers

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

"""The finds of an answer to `POST /analyze`, from what workers found in its texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from core.text.policy import Sanitised
from service.presidio.ad_hoc import AdHoc, explanation, shown_score
from service.sanitize.rows import language_refused

Found = dict[str, Any]


def collected(
    texts: Sequence[str],
    read: Sequence[int],
    results: Sequence[Any],
    own: Sequence[AdHoc],
    *,
    explained: bool,
) -> list[list[Found]]:
    """The finds of each text. `results`: of the documents, then of each own recogniser in each of the texts `read`."""
    found: list[list[Found]] = [[] for _ in texts]
    drafts = results[len(results) - len(own) * len(read) :]
    for number, result in zip(read, results[: len(results) - len(drafts)], strict=False):
        if result.refused:
            raise language_refused(field=f"text.{number}")
        found[number] += _shown(result, explained=explained)
    at = iter(drafts)
    for each in own:
        for number in read:
            found[number] += each.results(next(at), explained=explained)
    if own:
        found = [_without_contained(each) for each in found]
    return found


def _shown(result: Sanitised, *, explained: bool) -> Iterable[Found]:
    if result.origins is None:
        raise TypeError("the finds have no places")
    for span, origin in zip(result.spans, result.origins, strict=True):
        # a word that a list does not have has no recogniser, and no score
        score = shown_score(origin.score) if origin.recogniser else 1.0
        reasons = explanation(origin.recogniser or span.technique, score, before=score) if explained else None
        yield {
            "analysis_explanation": reasons,
            "end": origin.end,
            "entity_type": span.type,
            "score": score,
            "start": origin.start,
        }


def _without_contained(found: Iterable[Found]) -> list[Found]:
    """The finds that no other one of the same type contains with as high a score."""

    def order(each: Found) -> tuple[Any, ...]:
        return each["entity_type"], each["start"], -each["end"], -each["score"]

    kept: list[Found] = []
    for _, own in groupby(sorted(found, key=order), key=lambda each: each["entity_type"]):
        open_: list[Found] = []
        for each in own:
            open_ = [other for other in open_ if other["end"] > each["start"]]
            if not any(other["end"] >= each["end"] and other["score"] >= each["score"] for other in open_):
                open_.append(each)
                kept.append(each)
    return sorted(kept, key=lambda each: (each["start"], -each["end"]))

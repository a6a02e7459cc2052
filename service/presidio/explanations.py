"""How a find came about, in the members of Presidio's `AnalysisExplanation`."""

from __future__ import annotations

from typing import Any

_SCORE_DIGITS = 4


def shown_score(score: float) -> float:
    return round(score, _SCORE_DIGITS)


def explanation(
    recogniser: str, score: float, *, before: float, pattern_name: str | None = None, pattern: str | None = None
) -> dict[str, Any]:
    """`before`: the score without context words. The gateway names no context word and no validation."""
    return {
        "original_score": shown_score(before),
        "pattern": pattern,
        "pattern_name": pattern_name,
        "recognizer": recogniser,
        "regex_flags": None,
        "score": shown_score(score),
        "score_context_improvement": shown_score(score - before),
        "supportive_context_word": "",
        "textual_explanation": f"Detected by `{recogniser}`",
        "validation_result": None,
    }

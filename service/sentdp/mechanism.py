"""The name of a sentence-level mechanism, as bodies and presets take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS

if TYPE_CHECKING:
    SentenceMechanism = str
else:
    SentenceMechanism = Literal[tuple(SENTENCE_MECHANISMS)]

"""Documents are refused for their form before any of them is segmented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import InvalidInput
from core.mechanisms.sentences.pack_facts import CodeNoise
from core.mechanisms.sentences.pricing import sentence_event
from service.config.settings import Settings
from service.sentdp import service
from service.sentdp.schemas import SentDPRequest


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


def refused(documents: list[dict[str, Any]], settings: Settings) -> InvalidInput:
    body = SentDPRequest.model_validate({"documents": documents, "epsilon": 1})
    event = sentence_event("sentence_codes", 1, CodeNoise.COUNTS)
    with pytest.raises(InvalidInput) as raised:
        service.tasks_of(body, settings, dimension=2, event=event)
    return raised.value


def test_nothing_is_segmented_if_a_document_is_empty_or_too_long(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    segmented: list[str] = []
    monkeypatch.setattr(service, "sentences", lambda text: segmented.append(text) or [text])
    settings = settings.model_copy(update={"document_chars_max": 50})
    for document in (
        {"text": ""},
        {"text": " \n"},
        {"sentences": []},
        {"sentences": ["One.", ""]},
        {"embeddings": []},
        {"text": "x" * 99},
    ):
        assert refused([{"text": "A document."}, document], settings).field == "documents.1"
    assert segmented == []


def test_segmentation_stops_at_the_limit_of_sentences(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    segmented: list[str] = []
    monkeypatch.setattr(service, "sentences", lambda text: segmented.append(text) or [text])

    error = refused([{"text": "Words."}] * 5, settings.model_copy(update={"sentences_per_request_max": 2}))

    assert error.field == "documents"
    assert len(segmented) == 3

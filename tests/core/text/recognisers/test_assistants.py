"""Names of assistants, of vendors of models and of tools stay where they are no people."""

import pytest

from core.errors import RecogniserFailed
from core.text import recogniser
from core.text.mask_entity import Tagged, find_tagged
from core.text.policy import MaskPolicy
from core.text.recognisers.assistants import READ_CHARS, introduced

UNMARKED = str.maketrans("", "", "[]")

# what a tagger takes for a name is in brackets
STAYS = (
    "You are [Claude Code], [Anthropic]'s official CLI for [Claude].",
    "You are [Claude], an AI assistant made by [Anthropic].",
    "Du bist [Claude Code], das offizielle CLI von [Anthropic] für [Claude].",
    "Tu es [Claude], un assistant [d'Anthropic].",
    "The assistant is [Claude Opus 4.5], created by [Anthropic].",
    "Let [Claude] Code run the tests, and ask [Claude] for the rest.",
    "You are [Devin], a software engineer built by [Cognition].",
    "You are [GitHub Copilot], an AI programmer built by [GitHub] and [Microsoft].",
    "You are [ChatGPT], trained by [OpenAI]. Use [Ansible] in [Cursor].",
    "Jesteś [Claude], pomocny asystent.",
    "Você é o [Claude], um assistente da [Anthropic].",
    "Je bent [Mistral], een assistent van [Mistral AI].",
    "You are [Cline], a highly skilled software engineer.",
    "You are [OpenCode], an interactive CLI tool. You are [Amp], a coding agent built by [Sourcegraph].",
    "You are [Kiro], an AI assistant and IDE built by [Amazon].",
)
MASKED = (
    "[Claude Dupont] called.",
    "My colleague [Claude] will help you.",
    "You are [Claude Dupont], an assistant of the board.",
    "You are Claude, a helpful assistant. My colleague [Claude] called, and [Claude Monet] did.",
    "Claude Code found what Monsieur [Claude] wrote.",
    "[Claude], can you call me back? [Devin] and [Alexa] are sick.",
    "I am [Claude], and this is my agent [Devin Keller].",
    "[Jules] works at [Google] as an assistant.",
    "[Code Dupont] and [Copilot Keller] called.",
)


def kept_of(marked: str) -> tuple[list[str], int]:
    """The bracketed names that are masked, and the number of those in brackets."""
    text, found = "", []
    for number, part in enumerate(marked.replace("]", "[").split("[")):
        if number % 2:
            found.append((len(text), len(text) + len(part), "PERSON", 1.0))
        text += part
    tagged = Tagged(text, frozenset({"PERSON"}), tuple(found))
    masks = find_tagged(text, MaskPolicy(entities=("PERSON",)), tagged)
    return [text[start:end] for start, end in sorted({(mask.start, mask.end) for mask in masks})], len(found)


def test_an_introduction_is_read_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "you are Claude or " * (READ_CHARS // 10)
    assert not introduced(hostile + STAYS[1])
    assert introduced(hostile[: READ_CHARS // 2] + STAYS[1].translate(UNMARKED))
    monkeypatch.setattr(recogniser, "REGEX_TIMEOUT_S", 1e-6)
    with pytest.raises(RecogniserFailed):
        introduced(hostile)


def test_public_names_stay_where_they_are_no_people() -> None:
    assert [text for text in STAYS if kept_of(text)[0]] == []
    assert [text for text in MASKED if len(kept_of(text)[0]) != kept_of(text)[1]] == []

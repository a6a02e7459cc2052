"""The turns of a conversation: which question each text answers, and whether an assistant is introduced."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from core.text.policy import MaskPolicy
from core.text.recognisers.asked import Asked
from core.text.recognisers.assistants import introduced
from service.proxy.outgoing import Field
from service.proxy.slots import Slot

TURN = re.compile(r"(?:messages|input|texts)(?:\.\d+|\Z)")
_SAID_CHARS = 1_000  # of the end of a turn, in which its question is looked for


class Turned(NamedTuple):
    """A text, the question that it answers, empty without one, whether its conversation begins with an assistant's
    introduction, and whether patterns alone read it."""

    text: str
    question: str
    assistant: bool
    patterns_only: bool

    def __repr__(self) -> str:
        return f"Turned({len(self.text)} characters)"

    def policy(self, policy: MaskPolicy) -> MaskPolicy:
        """The policy by which the text is read."""
        return replace(policy, question=self.question, assistant=self.assistant, patterns_only=self.patterns_only)


class Conversation(NamedTuple):
    """`texts`: of each field. `asked`: what is asked for after the last turn."""

    texts: Sequence[Sequence[Turned]]
    asked: Asked


def conversation_of(fields: Sequence[Field], asked: Asked, patterns_only: Callable[[Slot], bool]) -> Conversation:
    """The fields with the questions of the turns before them. `asked`: what was asked for before the first of them.
    `patterns_only`: whether patterns alone read a slot.

    System prompts and the first turn introduce an assistant, which no later turn changes."""
    turns = [found[0] if (found := TURN.match(each.slot.path)) else "" for each in fields]
    said = dict.fromkeys(filter(None, turns), "")
    for each, turn in zip(fields, turns, strict=True):
        if turn and each.is_inspected:
            said[turn] = "\n".join((said[turn], *each.texts))[-_SAID_CHARS:]
    before: dict[str, Asked] = {}
    for turn, text in said.items():
        before[turn] = asked
        asked = asked.after(text)
    first = ("", next(iter(said), ""))
    assistant = any(
        introduced(text) for each, turn in zip(fields, turns, strict=True) if turn in first for text in each.texts
    )
    texts = []
    for each, turn in zip(fields, turns, strict=True):
        open_ = before.get(turn) if each.read.values is None else None
        alone = patterns_only(each.slot)
        texts.append([Turned(text, open_.question_for(text) if open_ else "", assistant, alone) for text in each.texts])
    return Conversation(texts, asked)

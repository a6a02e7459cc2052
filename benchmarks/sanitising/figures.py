"""Counts what masks hide of marked texts.

A word is a maximal run of letters and digits. A word that touches a mark of personal data belongs to it and is hidden
if every character is masked, by any type. Other words that touch an optional mark do not count. The remaining words are
plain, and are masked if any character is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.sanitising.texts import Mark, Marked
from core.text.policy import Mask

_WORD = re.compile(r"[^\W_]+")
CONTEXT = 40


@dataclass
class Figures:
    """Counts of a file; `plain_masked` by type of mask. `missed` and `wrong` describe the mistakes."""

    texts: int = 0
    without_finds: int = 0
    masks: int = 0
    plain: int = 0
    plain_masked: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    loose: int = 0
    words: Counter[str] = field(default_factory=Counter)
    words_hidden: Counter[str] = field(default_factory=Counter)
    finds: Counter[str] = field(default_factory=Counter)
    finds_hidden: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)

    def add(self, marked: Marked, masks: Sequence[Mask]) -> None:
        """Count a text whose masks have positions of `marked.text`."""
        text = marked.text
        finds = [mark for mark in marked.marks if not mark.optional]
        optional = [mark for mark in marked.marks if mark.optional]
        masked = {place for mask in masks for place in range(mask.start, mask.end)}
        whole = dict.fromkeys(finds, True)
        self.texts += 1
        self.without_finds += not finds
        for word in _WORD.finditer(text):
            start, end = word.span()
            places = range(start, end)
            owner = next((mark for mark in finds if mark.start < end and start < mark.end), None)
            if owner:
                # Personal data may end inside a word: "user_id=1234x", "Anna's" in some scripts.
                hidden = masked.issuperset(range(max(start, owner.start), min(end, owner.end)))
                self.words[owner.type] += 1
                self.words_hidden[owner.type] += hidden
                whole[owner] &= hidden
            elif not any(mark.start < end and start < mark.end for mark in optional):
                self.plain += 1
                if not masked.isdisjoint(places):
                    kind = next(mask.type for mask in masks if mask.start < end and start < mask.end)
                    self.plain_masked[kind] += 1
                    self.wrong.append(f"{kind}: {_around(text, start, end)}")
        for mark, hidden in whole.items():
            self.finds[mark.type] += 1
            self.finds_hidden[mark.type] += hidden
            if not hidden:
                self.missed.append(f"{mark.type}: {_around(text, mark.start, mark.end)}")
        self._count_edges(text, masks, marked.marks)

    def _count_edges(self, text: str, masks: Sequence[Mask], marks: Sequence[Mark]) -> None:
        starts, ends = {mark.start for mark in marks}, {mark.end for mark in marks}
        for mask in masks:
            first, last = mask.start not in starts, mask.end not in ends
            cut = (first and text[max(0, mask.start - 1) : mask.start + 1].isalnum() and mask.start > 0) or (
                last and mask.end < len(text) and text[mask.end - 1 : mask.end + 1].isalnum()
            )
            loose = (first and not text[mask.start].isalnum()) or (last and not text[mask.end - 1].isalnum())
            self.masks += 1
            self.cut += cut
            self.loose += loose
            if cut or loose:
                self.edges.append(f"{mask.type}: {_around(text, mask.start, mask.end)}")


def _around(text: str, start: int, end: int) -> str:
    shown = f"{text[max(0, start - CONTEXT) : start]}>>{text[start:end]}<<{text[end : end + CONTEXT]}"
    return shown.replace("\n", " | ")

"""Restoring the texts of an answer: those of a whole body, one that comes in pieces, and the positions inside them.

`CommonDialect` is what the wire formats have in common.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, Literal

from service.proxy.dialects.protocol import Restorer, Restorers, flag, model_of
from service.proxy.dialects.shapes import ERROR, Shape, slots_of, strings
from service.proxy.slots import Slot, SlotKind

Rule = Literal["text", "json", "content"]
"""How a text is restored: as text, as JSON, or as what the request asked the content to be (text or a JSON object).

Models write other text where JSON is expected. Text that does not begin as JSON does is restored as text.
"""
_OPENERS: dict[Rule, tuple[str, ...]] = {"text": (), "json": ("{", "[", '"'), "content": ("{",)}
_LOOK_AHEAD = 512
_MADE_OF_PLAIN_TEXT = (SlotKind.TEXT, SlotKind.IDENTIFIER, SlotKind.KNOWN, SlotKind.DEFINITION)


def content_rule(structured: bool) -> Rule:
    return "content" if structured else "text"


def _is_json(text: str, rule: Rule) -> bool:
    return text.lstrip().startswith(_OPENERS[rule]) if _OPENERS[rule] else False


def whole(text: str, rule: Rule, restorers: Restorers) -> str:
    return restorers.whole_json(text) if _is_json(text, rule) else restorers.whole(text)


def restore_slot(slot: Slot, restorers: Restorers, rule: Rule = "text") -> bool:
    """Restore one slot in place; `rule` is for texts. Returns whether the slot changed. Media are left as they are."""
    if slot.kind is SlotKind.MEDIA:
        return False
    if slot.kind is SlotKind.VALUE:
        inner = list(strings(slot.owner, slot.key, (), SlotKind.TEXT))
        changes = [restore_slot(each, restorers) for each in inner]
        return any(changes)
    before = slot.value
    if slot.kind in _MADE_OF_PLAIN_TEXT:
        slot.value = whole(before, rule, restorers)
    else:
        slot.value = whole(before, "json", restorers)
    return bool(slot.value != before)


def restore_shape(shape: Shape, value: Any, restorers: Restorers) -> None:
    """Restore every text of `value`, an object or list, in place."""
    for slot in list(slots_of(shape, value, strict=False)):
        restore_slot(slot, restorers)


def restore_error(body: Any, restorers: Restorers) -> None:
    """Restore every string of an error's body, an object or list, in place."""
    restore_shape(ERROR, body, restorers)


class RestoredField:
    """One text that arrives in pieces. After `end` a new text may begin."""

    def __init__(self, restorers: Restorers, rule: Rule) -> None:
        self.rule = rule
        self._restorers = restorers
        self._restorer: Restorer | None = None

    def feed(self, text: str) -> str:
        if self._restorer is None:
            if not text.strip():
                return text  # the first letter tells whether it is JSON
            self._restorer = self._restorers.json() if _is_json(text, self.rule) else self._restorers.text()
        return self._restorer.feed(text)

    def end(self) -> str:
        restorer, self._restorer = self._restorer, None
        return restorer.end() if restorer else ""


class Positions:
    """Where positions of a text, in code points, are after it is restored. The text may grow between questions.

    A position inside a surrogate moves to the begin or the end of the words that replaced it. What a question costs
    depends on the text since the closest earlier position that was asked, not on the whole text.
    """

    def __init__(self, whole_text: Callable[[str], str], text: str = "") -> None:
        self._whole = whole_text
        self._text = text
        self._pieces: list[str] = []
        self._known = [(0, 0)]

    def append(self, text: str) -> None:
        self._pieces.append(text)

    def moved(self, position: int, *, end: bool) -> int:
        if self._pieces:
            self._text += "".join(self._pieces)
            self._pieces = []
        position = max(position, 0)
        beyond = max(position - len(self._text), 0)
        return self._moved(position - beyond, end) + beyond

    def _moved(self, position: int, end: bool) -> int:
        place = bisect_right(self._known, (position, len(self._text) * 1_000)) - 1
        begin, begin_moved = self._known[place]
        before, after = self._text[begin:position], self._text[position : position + _LOOK_AHEAD]
        left, right, both = self._whole(before), self._whole(after), self._whole(before + after)
        if both == left + right:
            if begin != position:
                self._known.insert(place + 1, (position, begin_moved + len(left)))
            return begin_moved + len(left)
        if not end:
            cut = _shared(left, both)
            while cut and both[cut - 1].isalnum():
                cut -= 1
            return begin_moved + cut
        cut = len(both) - _shared(right[::-1], both[::-1])
        while cut < len(both) and both[cut].isalnum():
            cut += 1
        return begin_moved + cut


def _shared(left: str, right: str) -> int:
    """How many characters both begin with."""
    shorter = min(len(left), len(right))
    return next((number for number in range(shorter) if left[number] != right[number]), shorter)


def move_positions(annotation: Any, positions: Positions) -> None:
    """Move `start_index` and `end_index` of a citation to the restored text."""
    if not isinstance(annotation, dict):
        return
    for name in ("start_index", "end_index"):
        value = annotation.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            annotation[name] = positions.moved(value, end=name == "end_index")


def move_all_positions(annotations: Iterable[Any], positions: Positions) -> None:
    for annotation in annotations:
        move_positions(annotation, positions)


class CommonDialect:
    """The methods of `protocol.Dialect` that do not depend on the format, or that most formats have in common."""

    counting_path: str | None = None

    def model(self, body: Any) -> str:
        return model_of(body)

    def streams(self, body: Any) -> bool:
        return flag(body, "stream", default=False)

    def continues(self, body: Any) -> str | None:
        del body
        return None

    def answer_id(self, data: Any) -> str | None:
        del data
        return None

    def said(self, data: Any) -> str:
        del data
        return ""

    def restore_error(self, body: Any, restorers: Restorers) -> None:
        restore_error(body, restorers)

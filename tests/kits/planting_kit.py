"""Plants text in every place of a request that a type of an SDK declares, one place at a time.

A place is a value, or a name of a member. `Places` first makes requests that pass: it gives each declared string a
value of a form that its member accepts. It then yields small copies of them, each with one planted text.
"""

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sdk_samples_kit import CANARY, Samples, mask

from core.errors import InvalidInput
from service.proxy.slots import Slot, SlotKind

ADDRESS = "planted1x@example.org"
SENTENCE = "Please ask planted2x Keller about the invoice."
KEYED = {ADDRESS: "a"}
PLANTED: tuple[Any, ...] = (ADDRESS, SENTENCE, [ADDRESS], {"a": ADDRESS}, KEYED, [KEYED])
# Members that no type declares, added to each object.
ADDED: tuple[dict[str, Any], ...] = (KEYED, {"x-vendor": ADDRESS}, {"vendor": {"a": [ADDRESS]}}, {SENTENCE: None})
_PLANTED = re.compile(r"planted\dx")
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="
# What a member may accept that takes no free text.
FORMS = (
    *("auto", "name_of_it", "call_0123456789abcdef", SIGNATURE, "docs.example.org", "DE", "Europe/Berlin", "gpt-5"),
    *("claude-opus-5", "context-management-2025-06-27", "latest", "1024x1024"),
)
Slots = Callable[[Any], Iterable[Slot]]
Path = tuple[Any, ...]


def path_of(body: Any, field: str) -> Path:
    """The path of the member that a problem names; a number stands for a name of the client's."""
    path: list[Any] = []
    for step in field.split("."):
        known = step in body if isinstance(body, dict) else False
        key: Any = step if known else int(step)
        path.append(list(body)[key] if isinstance(body, dict) and not known else key)
        body = body[path[-1]]
    return tuple(path)


def locate(body: Any, field: str) -> tuple[Any, Any]:
    return at(body, path_of(body, field))


def _names(field: str) -> str:
    return re.sub(r"\.\d+", "", field)


class Places:
    """The requests of a type, for the slots of a dialect. `refused`: the members that no form makes acceptable, by type
    and member. `formed`: those that take a form and no text."""

    def __init__(self, slots: Slots, kind: Any) -> None:
        self._slots = slots
        self._samples = Samples()
        self._fits: dict[str, str] = {}
        self.refused: set[str] = set()
        # the gateway writes the model of a request itself
        self.bodies = [self._fitted(body | {"model": "m"}) for body in self._samples.bodies(kind)]

    @property
    def formed(self) -> set[str]:
        return set(self._fits) - self.refused

    def copies(self) -> list[Any]:
        return copy.deepcopy(self.bodies)

    def left_in(self, body: Any) -> set[str]:
        """The members of which a string is still in a body."""
        return self._samples.left_in(json.dumps(body))

    @property
    def declared(self) -> list[str]:
        return self._samples.members

    def _fitted(self, body: Any) -> Any:
        """The body with a value that passes in each place, without the members that take none."""
        places: dict[str, list[Path]] = {}
        for path, value in walk(body):
            if isinstance(value, str) and (place := self._place(value)):
                places.setdefault(place, []).append(path)
        for place in set(places) & set(self._fits):
            self._set(body, places[place], self._fits[place])
        while (field := self._refusal(body)) is not None:
            owner, key = locate(body, field)
            place = self._place(owner[key])
            fit = next((form for form in FORMS if self._accepts(body, field, form)), None) if place else None
            if isinstance(owner[key], str) and fit is not None:
                self._fits[place] = fit
                self._set(body, places[place], fit)
            else:
                self.refused.add(place or field)
                del owner[key]
        return body

    def _set(self, body: Any, paths: list[Path], form: str) -> None:
        for path in paths:
            try:
                owner, key = at(body, path)
                owner[key] = form
            except (KeyError, IndexError):
                pass  # the object was taken out

    def _accepts(self, body: Any, field: str, form: str) -> bool:
        refused = self._refusal(with_value(body, path_of(body, field), form))
        return refused is None or _names(refused) != _names(field)

    def _refusal(self, body: Any) -> str | None:
        """The field that the dialect refuses."""
        try:
            list(self._slots(body))
        except InvalidInput as error:
            return error.field or ""
        return None

    def _place(self, value: Any) -> str:
        found = CANARY.search(json.dumps(value))
        return self._samples.members[int(found[1])] if found else ""

    def planted(self) -> Iterator[tuple[str, Any]]:
        """A place, and a request with a planted text there."""
        seen: set[str] = set()
        for body in self.bodies:
            for path, value in list(walk(body)):
                place = place_of(body, path)
                if place in seen or place == "model":
                    continue
                seen.add(place)
                for text in PLANTED:
                    yield place, with_value(body, path, copy.deepcopy(text))
                for members in ADDED if isinstance(value, dict) else ():
                    yield place, with_value(body, path, pruned(value) | copy.deepcopy(members))


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value in a JSON value, with its path."""
    if path:
        yield path, value
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from walk(value[key], (*path, key))


def at(body: Any, path: Path) -> tuple[Any, Any]:
    for key in path[:-1]:
        body = body[key]
    return body, path[-1]


def place_of(body: Any, path: Path) -> str:
    """The path, with the types of the objects on it for the numbers of elements."""
    steps = []
    for key in path:
        kind = body.get("type", body.get("role", "")) if isinstance(body, dict) else ""
        steps.append(f"{'*' if isinstance(key, int) else key}{f'({kind})' if isinstance(kind, str) and kind else ''}")
        body = body[key]
    return ".".join(steps)


def pruned(value: Any) -> Any:
    """An object without the lists and objects in it."""
    return {name: each for name, each in value.items() if not isinstance(each, dict | list)}


def with_value(body: Any, path: Path, value: Any) -> Any:
    """A copy of a body with another value at a path, and of the rest what stands beside the path."""
    if not path:
        return value
    key, *rest = path
    inner = with_value(body[key], tuple(rest), value)
    return [inner] if isinstance(body, list) else {**pruned(body), key: inner}


def left(slots: Slots, body: Any) -> bool:
    """Whether a planted text leaves in a request: it is neither refused nor masked, or a problem repeats it.
    Texts that an upstream has signed are not masked: what other texts hold is replaced in them."""
    try:
        found = list(slots(body))
    except InvalidInput as error:
        return "planted" in f"{error.detail} {error.field}"
    mask((slot for slot in found if slot.kind is not SlotKind.KNOWN), _PLANTED)
    return bool(_PLANTED.search(json.dumps(body)))

"""Paths of values in JSON, and which rule applies to a value.

A path is a list of steps: `.name` or `["any name"]` for a member, `[0]` for an item, `*` or `[*]` for any one member or
item, `**` for any number of steps. A path that begins with `$` begins at the document; any other may begin anywhere:

    $.customer.name      this member alone
    customer.*.email     `email`, two steps below any `customer`
    email                every member `email`
    $.rows[*][2]         the third item of each row
    **.name              every member `name`, as `name`

A rule holds for the value at its path and for all values inside. Where several rules match, those that match the value
itself come before those that match a container around it, and then the first in the list decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from core.errors import InvalidInput

PATH_STEPS_MAX = 32
RULES_MAX = 100

_ANY, _ANY_DEPTH = "*", "**"
_STEP = re.compile(r'(?:^|\.)(\*\*|\*|[^.*\[\]"\s][^.\[\]"]*)|\[("(?:[^"\\]|\\.)*")\]|\[([0-9]+|\*)\]')

Step = tuple[str, str]  # the kind (`name`, `any`, `deep`) and the name
State = frozenset[tuple[int, int]]  # of each rule, how many of its steps may have matched


def parse_path(path: str) -> tuple[Step, ...]:
    """Return the steps of a path. Raises InvalidInput if it is not a path."""
    anchored = path == "$" or path.startswith(("$.", "$["))
    rest = path[1:].removeprefix(".") if anchored else path
    steps: list[Step] = [] if anchored else [("deep", "")]
    at = 0
    while at < len(rest) and len(steps) <= PATH_STEPS_MAX and (match := _STEP.match(rest, at)):
        name, quoted, index = match.groups()
        if name == _ANY_DEPTH:
            steps.append(("deep", ""))
        elif _ANY in (name, index):
            steps.append(("any", ""))
        else:
            steps.append(("name", _unquoted(quoted) if quoted else name or index))
        at = match.end()
    if at < len(rest) or not path or path.endswith(".") or steps == [("deep", "")] or len(steps) > PATH_STEPS_MAX:
        raise InvalidInput(f"A rule's path cannot be read, or has more than {PATH_STEPS_MAX} steps.", field="path")
    return tuple(steps)


def _unquoted(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise InvalidInput("A rule's path cannot be read.", field="path") from None


class Matcher:
    """Follows the paths of rules down a document. A step costs a look-up once its key has been seen in its state."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises InvalidInput for a path that cannot be read, and for too many rules."""
        if len(paths) > RULES_MAX:
            raise InvalidInput(f"At most {RULES_MAX} rules.", field="rules")
        self._rules = [parse_path(path) for path in paths]
        self._names = {name for steps in self._rules for kind, name in steps if kind == "name"}
        self._known: dict[tuple[State, str | None], State] = {}
        self.start: State = self._closed((number, 0) for number in range(len(paths)))

    def step(self, state: State, key: str) -> State:
        """Return the state of the member or item `key` of a value in `state`."""
        name = key if key in self._names else None
        known = self._known.get((state, name))
        if known is None:
            known = self._known[state, name] = self._closed(
                (rule, at + (kind != "deep"))
                for rule, at in state
                if at < len(self._rules[rule])
                for kind, own in [self._rules[rule][at]]
                if kind != "name" or own == name
            )
        return known

    def rule(self, state: State) -> int | None:
        """Return the first rule whose path ends at this value."""
        return min((rule for rule, at in state if at == len(self._rules[rule])), default=None)

    def _closed(self, state: Iterable[tuple[int, int]]) -> State:
        found: set[tuple[int, int]] = set()
        for rule, at in state:
            found.add((rule, at))
            while at < len(self._rules[rule]) and self._rules[rule][at][0] == "deep":
                at += 1
                found.add((rule, at))
        return frozenset(found)

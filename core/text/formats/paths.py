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
from collections import defaultdict
from collections.abc import Sequence

from core.errors import InvalidInput

PATH_STEPS_MAX = 32
RULES_MAX = 100

_ANY, _ANY_DEPTH = "*", "**"
_STEP = re.compile(r'(?:^|\.)(\*\*|\*|[^.*\[\]"\s][^.\[\]"]*)|\[("(?:[^"\\]|\\.)*")\]|\[([0-9]+|\*)\]')

Step = tuple[str, str]  # the kind (`name`, `any`, `deep`) and the name
State = int  # a bit for each rule and number of its steps that may have matched


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
    """Follows the paths of rules down a document. A state and a step have the size of the rules, which is bounded."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises InvalidInput for a path that cannot be read, and for too many rules."""
        if len(paths) > RULES_MAX:
            raise InvalidInput(f"At most {RULES_MAX} rules.", field="rules")
        self._named: dict[str, State] = defaultdict(int)  # the steps with this name
        self._any = self._deep = self._ends = start = bit = 0
        self._rules: dict[int, int] = {}  # the rule that ends at a bit
        for rule, path in enumerate(paths):
            start |= 1 << bit
            for kind, name in parse_path(path):
                if kind == "name":
                    self._named[name] |= 1 << bit
                elif kind == "any":
                    self._any |= 1 << bit
                else:
                    self._deep |= 1 << bit
                bit += 1
            self._ends |= 1 << bit
            self._rules[bit] = rule
            bit += 1
        self.start: State = self._closed(start)

    def step(self, state: State, key: str) -> State:
        """Return the state of the member or item `key` of a value in `state`."""
        return self._closed((state & (self._any | self._named.get(key, 0))) << 1 | (state & self._deep))

    def rule(self, state: State) -> int | None:
        """Return the first rule whose path ends at this value."""
        ended = state & self._ends
        return self._rules[(ended & -ended).bit_length() - 1] if ended else None

    def _closed(self, state: State) -> State:
        """Add the states after steps that may match nothing."""
        while (more := state | (state & self._deep) << 1) != state:
            state = more
        return state

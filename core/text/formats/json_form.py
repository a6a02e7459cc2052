"""The format `json`: strings and numbers are values; keys, `true`, `false` and `null` are kept.

The grammar is that of RFC 8259. With the option `lines`, a document is JSON Lines: one value a line, and `$` is that
value. A label is the key of a value, after the key of the object around it. The rules of a request name values by
paths.

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

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import InvalidInput
from core.text.formats.builder import (
    DROP,
    KEEP,
    NEW_VALUE,
    Action,
    Builder,
    FormatOptions,
    JsonChoices,
    label_of,
    malformed,
    unfit,
)
from core.text.formats.codecs import CODECS

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


_STRING = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_SPACE = re.compile(r"[ \t\n\r]*+")
_TOKEN = re.compile(rf"({_STRING})|({_NUMBER})|(true|false|null)|([\[\]{{}}:,])")
_DROPPED = "null"
_NO_ACTION = Action()


@dataclass
class _Container:
    """An array or object that is being read. `outer` is its state, `count` the values so far."""

    array: bool
    start: int
    outer: State
    action: Action
    names: tuple[str, ...]
    count: int = 0
    after_comma: bool = False


def read(builder: Builder, options: FormatOptions) -> None:
    """Add the values of the document. Raises InvalidInput if it is not JSON."""
    reader = JsonReader(builder, options.json)
    source = builder.source
    at = _skip(source, int(source.startswith("\ufeff")))
    while True:
        end = reader.value(at)
        following = _skip(source, end)
        if following == len(source):
            return
        if not options.json.lines or "\n" not in source[end:following]:
            raise malformed("JSON Lines" if options.json.lines else "JSON", source, following)
        at = following


class JsonReader:
    """Reads values of JSON from the source of a builder. Raises InvalidInput for a path that is none."""

    def __init__(self, builder: Builder, options: JsonChoices) -> None:
        self._builder = builder
        self._source = builder.source
        self._matcher = Matcher([path for path, _ in options.rules])
        self._actions = [action for _, action in options.rules]
        self._stack: list[_Container] = []
        self._dropped = 0  # how many containers on the stack are inside a dropped one, which counts

    def value(self, at: int) -> int:
        """Add the values of one JSON value, which begins at `at`, and return its end. Raises InvalidInput."""
        self._stack, self._dropped = [], 0
        end = self._one(at, self._matcher.start, _NO_ACTION, ())
        while self._stack:
            end = self._member(_skip(self._source, end))
        return end

    def _member(self, at: int) -> int:
        """Read what follows in the innermost container: its end, or a comma, a key and the beginning of a value."""
        own = self._stack[-1]
        closing = "]" if own.array else "}"
        if self._source.startswith(closing, at) and not own.after_comma:
            return self._closed(at + 1)
        if own.count and not own.after_comma:
            if not self._source.startswith(",", at):
                raise malformed("JSON", self._source, at)
            own.after_comma = True
            return at + 1
        if own.array:
            names, key = own.names, str(own.count)
        else:
            match = _TOKEN.match(self._source, at)
            if match is None or match.group(1) is None:
                raise malformed("JSON", self._source, at)
            key = CODECS["json_string"].read(self._source[at + 1 : match.end() - 1])[0]
            names = (*own.names, key)[-2:]
            at = _skip(self._source, match.end())
            if not self._source.startswith(":", at):
                raise malformed("JSON", self._source, at)
            at = _skip(self._source, at + 1)
        own.count += 1
        own.after_comma = False
        return self._one(at, self._matcher.step(own.outer, key), own.action, names)

    def _one(self, at: int, state: State, inherited: Action, names: tuple[str, ...]) -> int:
        """Read a string, number or word, or the beginning of a container."""
        match = _TOKEN.match(self._source, at)
        if match is None:
            raise malformed("JSON", self._source, at)
        string, number, word, mark = match.groups()
        rule = self._matcher.rule(state)
        action = inherited if rule is None else self._actions[rule]
        if mark in ("[", "{"):
            if len(self._stack) == self._builder.limits.depth_max:
                raise unfit(f"JSON is nested at most {self._builder.limits.depth_max} deep.")
            if self._dropped or action.action == DROP:
                self._dropped += 1
            self._stack.append(_Container(mark == "[", at, state, action, names))
            return match.end()
        if mark:
            raise malformed("JSON", self._source, at)
        if self._dropped:
            return match.end()
        if action.action == DROP:
            self._builder.cut(at, match.end(), _DROPPED)
        elif action.action != KEEP and not word:
            before = NEW_VALUE + label_of(*names)
            if string:
                self._builder.value(at + 1, match.end() - 1, "json_string", before=before, kind=action.type)
            elif number:
                self._builder.value(at, match.end(), "json_number", before=before, kind=action.type)
        return match.end()

    def _closed(self, end: int) -> int:
        own = self._stack.pop()
        if self._dropped:
            self._dropped -= 1
            if not self._dropped:
                self._builder.cut(own.start, end, _DROPPED)
        return end


def _skip(source: str, at: int) -> int:
    match = _SPACE.match(source, at)
    return match.end() if match else at

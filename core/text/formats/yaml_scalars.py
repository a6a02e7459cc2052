"""How YAML writes a scalar: the type of a plain one, and what folded lines and escapes stand for."""

from __future__ import annotations

import re

import yaml

STRING, BOOL, NULL, MERGE = (f"tag:yaml.org,2002:{name}" for name in ("str", "bool", "null", "merge"))

_BREAKS = r"(?:\r\n?|\n)[ \t\r\n]*+"
_FOLD = rf"(?:(?<![ \t])|(?<=\\[ \t]))[ \t]*+{_BREAKS}"  # begins once in a run of spaces, so that reading is linear
PLAIN = re.compile(_FOLD)
SINGLE_QUOTED = re.compile(rf"''|{_FOLD}")
DOUBLE_QUOTED = re.compile(rf"\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|{_BREAKS}|[^\r\n]|\Z)|{_FOLD}")
_LETTERS = dict(zip("0abtnvfreNLP_", "\0\a\b\t\n\v\f\r\x1b\x85\u2028\u2029\xa0", strict=True))
_RESOLVER = yaml.SafeLoader("")


def implicit_type(scalar: str) -> str:
    """Return the tag of a plain scalar, such as `tag:yaml.org,2002:int`."""
    return str(_RESOLVER.resolve(yaml.ScalarNode, scalar, (True, False)))


def folded(match: re.Match[str]) -> str:
    """Return what a match of `PLAIN` or `SINGLE_QUOTED` stands for."""
    if match.group() == "''":
        return "'"
    return "\n" * (_breaks(match.group()) - 1) or " "


def unescaped(match: re.Match[str]) -> str:
    """Return what a match of `DOUBLE_QUOTED` stands for. Its escapes are also those of TOML."""
    if match.group()[0] != "\\":
        return folded(match)
    escape = match.group()[1:]
    if escape[:1] in ("x", "u", "U") and len(escape) > 1:
        return chr(int(escape[1:], 16))
    if escape[:1] in ("\r", "\n"):
        return "\n" * (_breaks(escape) - 1)
    return _LETTERS.get(escape, escape)


def _breaks(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")

"""A small restorer of fixed words: it holds back what may still become one, and keeps JSON valid."""

from __future__ import annotations

import json

WORDS = {
    "Anna Muster": "Maria Weber",
    "Anna": "Maria",
    "[PERSON_1]": 'Zoë "Z" O\'Neil',
    "pseudo-7": "maria@example.org",
}


class TextRestorer:
    def __init__(self, words: dict[str, str]) -> None:
        self._words = words
        self._held = ""

    def feed(self, text: str) -> str:
        self._held += text
        return self._take(last=False)

    def end(self) -> str:
        return self._take(last=True)

    def _take(self, *, last: bool) -> str:
        """What is certain. At the end everything is; before it, what begins a word waits for the rest of it."""
        out = ""
        while self._held:
            if not last and any(word.startswith(self._held) for word in self._words if word != self._held):
                break
            found = max((word for word in self._words if self._held.startswith(word)), key=len, default=None)
            size = len(found) if found else 1
            out += self._words[found] if found else self._held[0]
            self._held = self._held[size:]
        return out


class JsonRestorer:
    """Restores the string values of a JSON document and keeps its keys."""

    def __init__(self, words: dict[str, str]) -> None:
        self._words = words
        self._nesting: list[str] = []
        self._is_key = False
        self._string: TextRestorer | None = None
        self._in_string = False
        self._escape = ""

    def feed(self, text: str) -> str:
        return "".join(map(self._character, text))

    def end(self) -> str:
        out = self._written(self._string.end()) if self._in_string and self._string else ""
        escape, self._escape, self._string = self._escape, "", None
        return out + escape

    def _written(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)[1:-1]

    def _character(self, character: str) -> str:
        if self._in_string:
            return self._inside(character)
        if character == '"':
            self._in_string = True
            self._string = None if self._is_key else TextRestorer(self._words)
        elif character in "{[":
            self._nesting.append(character)
            self._is_key = character == "{"
        elif character in "}]" and self._nesting:
            self._nesting.pop()
            self._is_key = False
        elif character == ",":
            self._is_key = bool(self._nesting) and self._nesting[-1] == "{"
        elif character == ":":
            self._is_key = False
        return character

    def _inside(self, character: str) -> str:
        if self._escape:
            self._escape += character
            if self._escape[1] == "u" and len(self._escape) < 6:
                return ""
            escape, self._escape = self._escape, ""
            return self._written(self._string.feed(json.loads(f'"{escape}"'))) if self._string else escape
        if character == "\\":
            self._escape = character
            return ""
        if character == '"':
            out = self._written(self._string.end()) if self._string else ""
            self._in_string, self._string = False, None
            return out + '"'
        return self._written(self._string.feed(character)) if self._string else character


class WordRestorers:
    def __init__(self, words: dict[str, str] = WORDS) -> None:
        self._words = words

    def text(self) -> TextRestorer:
        return TextRestorer(self._words)

    def json(self) -> JsonRestorer:
        return JsonRestorer(self._words)

    def whole(self, text: str) -> str:
        restorer = self.text()
        return restorer.feed(text) + restorer.end()

    def whole_json(self, text: str) -> str:
        restorer = self.json()
        return restorer.feed(text) + restorer.end()

"""Generated documents of every format but logs, and what each format's own parser reads in them."""

import csv
import email
import email.policy
import io
import json
import random
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from email.header import Header
from html import escape
from html.parser import HTMLParser
from quopri import encodestring
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from table_kit import texts

PLANTED = texts("""
jane.roe@acme-corp.com || 4111 1111 1111 1111 || DE89 3704 0044 0532 0130 00 || +44 20 7946 0958 || 192.168.17.4
""")
_TEXT = """
the order was late and nobody called about it café naïve über 東京 😀 e\u0301 zero\u200bwidth right\u200fmark a&b x<y
it's "quoted" 'single' back\\slash 100% #1 a|b [x] (y) {z} * _ ~ `tick` $5 @home; semi, comma: colon =
"""
_WORDS = _TEXT.split()
_NUMBERS = ("0", "-1", "1.50", "1e400", "-0.0", "12345678901234567890123", "3E+2", "7", "0.1")
_MARK = re.compile(r"\[[A-Z_]+\]|%5B[A-Z_]+%5D|[A-Z_]+@masked\.invalid|[a-z_-]*masked|x-[a-z_]+")


@dataclass
class Document:
    """A generated document, and the values that were planted in it as a reader sees them."""

    format: str
    text: str
    options: dict[str, Any] = field(default_factory=dict)


class Writer:
    """Draws documents. The same seed gives the same documents."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, words: int = 6) -> str:
        parts = self.random.choices(_WORDS, k=self.random.randint(0, words))
        if self.random.random() < 0.5:
            parts.insert(self.random.randint(0, len(parts)), self.random.choice(PLANTED))
        return " ".join(parts)

    def plain(self) -> str:
        """Text without characters that have a meaning in some format."""
        return re.sub(r"[^\w\s@.+]", "", self.text()) or "x"

    def document(self, format_name: str) -> Document:
        document = getattr(self, format_name)()
        newline = self.random.choice(["\n", "\r\n"])
        text = document.text if format_name == "json" else re.sub(r"\r?\n", newline, document.text)
        bom = "\ufeff" if self.random.random() < 0.05 else ""
        return Document(format_name, bom + text, document.options)

    def json(self) -> Document:
        if self.random.random() < 0.2:
            lines = [self._json(2).replace("\n", " ") for _ in range(3)]
            return Document("json", "\n".join(lines) + "\n", {"json": {"lines": True}})
        return Document("json", self._space() + self._json(4) + self._space())

    def _space(self) -> str:
        return self.random.choice(["", "", " ", "\n  ", "\t", "\r\n"])

    def _json(self, depth: int) -> str:
        kind = self.random.random()
        if depth and kind < 0.45:
            members = [
                self._space() + self._string(self.random.choice(["name", "e-mail", "a", "a", "Ключ", ""]))
                + self._space() + ":" + self._space() + self._json(depth - 1) + self._space()
                for _ in range(self.random.randint(0, 4))
            ]  # fmt: skip
            return "{" + (",".join(members) or self._space()) + "}"
        if depth and kind < 0.6:
            return "[" + ",".join(self._json(depth - 1) for _ in range(self.random.randint(0, 4))) + "]"
        if kind < 0.85:
            return self._string(self.text())
        return self.random.choice([*_NUMBERS, "4111111111111111", "true", "false", "null"])

    def _string(self, text: str) -> str:
        shown = json.dumps(text, ensure_ascii=self.random.random() < 0.5)
        extra = self.random.choice(["", "", "", r"\ud83d\ude00", r"\ud800", r"\udc00x", r"\u0000", r"\/", r"\n"])
        return shown[:-1] + extra + '"'

    def csv(self) -> Document:
        delimiter = self.random.choice(",;\t|")
        columns = self.random.randint(2, 5)
        rows = [[f"column {number}" for number in range(columns)]]
        rows += [[self.text(4) for _ in range(columns)] for _ in range(self.random.randint(1, 6))]
        out = io.StringIO()
        quoting = self.random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows(rows)
        names = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
        options = {} if self.random.random() < 0.5 else {"csv": {"delimiter": names[delimiter]}}
        return Document("csv", out.getvalue(), options)

    def html(self) -> Document:
        parts = [self.random.choice(["<!DOCTYPE html>", "", "<html><body>"])]
        for _ in range(self.random.randint(1, 6)):
            text, other = escape(self.text()), self.text()
            kinds = [
                f'<p title="{escape(other)}">{text}</p>', f"<P>{text}<br/>{text}", f"<b>{text}</b>{escape(other)}",
                f"<img alt='{escape(other)}' src=/x{self.random.randint(1, 9)}.png>",
                f"<a href=mailto:jane.roe@acme-corp.com data-x>{text}</a>",
                f"<table><tr><th>Card<th>B<tr><td>{text}<td>{text}</table>",
                f"<!-- {other.replace('>', '').replace('-', '')} -->",
                f'<script>var x = "{self.plain()}"; if (a < b) {{}}</script>',
                f"<style>p {{ color: red }}</style><textarea>{text}</textarea>", f"<![CDATA[ {self.plain()} ]]>",
                f"{text} < 5 & {escape(other)} &nbsp;&copy &#52;111 1111 1111 1111", "</p></x>",
            ]  # fmt: skip
            parts.append(self.random.choice(kinds))
        parts.append(self.random.choice(["", "", "<p", "</", "<!-- open", '<a href="open ', "<b>"]))
        return Document("html", self.random.choice(["\n", "", " "]).join(parts))

    def markdown(self) -> Document:
        blocks = ["---\ntitle: A title\nauthor: " + self.plain() + "\n---"] if self.random.random() < 0.2 else []
        for _ in range(self.random.randint(1, 6)):
            text, plain = self.text(), self.plain()
            kinds = [
                f"# {plain}", f"{plain}\n===", f"{text}\n{plain}", f"> {plain}\n> {plain}",
                f"* {plain}\n* **{plain}** and `{plain}`\n  1. {plain}",
                f"| Name | Card |\n| --- | :-: |\n| {plain} | {plain} |", f'```python\nx = "{plain}"\n```',
                f"~~~~\n{text}\n~~~\n~~~~",
                f'See [{plain}](https://example.org/x "{plain}") or <jane.roe@acme-corp.com>.',
                f"![{plain}](mailto:jane.roe@acme-corp.com)", f'<div title="{plain}">\n{plain}\n</div>',
                "jane.roe@acme-corp.com: here", "jane.roe@acme-corp.com(x) \\* \\_ &amp;",
            ]  # fmt: skip
            blocks.append(self.random.choice(kinds))
        return Document("markdown", "\n\n".join(blocks) + "\n")

    def email(self) -> Document:
        name = self.random.choice(["Jane Roe", '"Roe, Jane"', Header("Jörg Roe", "utf-8").encode(), ""])
        lines = [
            f"From: {name} <jane.roe@acme-corp.com>",
            "To: bob@example.net, Friends: a@example.net, b@example.net;",
            "Subject: " + self.random.choice([Header(self.plain(), "utf-8").encode(), "Call +44 20 7946 0958"]),
            "MIME-Version: 1.0",
        ]
        return Document("email", "\n".join(lines) + "\n" + self._part(2))

    def _part(self, depth: int) -> str:
        if depth and self.random.random() < 0.5:
            boundary = f"=_{depth}_b"
            inner = "\n".join(f"--{boundary}\n{self._part(depth - 1)}" for _ in range(self.random.randint(1, 3)))
            kind = self.random.choice(["mixed", "alternative"])
            return f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\n{inner}\n--{boundary}--\n'
        html = self.random.random() < 0.4
        text = f"<p>{escape(self.text())}</p>\n" if html else f"{self.text()}\n> {self.text()}\n>> {self.plain()}\n"
        kind = f"Content-Type: text/{'html' if html else 'plain'}; charset=utf-8\n"
        encoding = self.random.choice(["8bit", "base64", "quoted-printable"])
        encoded = {
            "8bit": text,
            "base64": re.sub("(.{76})", r"\1\n", b64encode(text.encode()).decode()),
            "quoted-printable": encodestring(text.encode()).decode(),
        }[encoding]
        return f"{kind}Content-Transfer-Encoding: {encoding}\n\n{encoded}"


def _json_leaves(text: str) -> tuple[Any, list[str]]:
    values: list[str] = []

    def shape(value: Any) -> Any:
        if isinstance(value, tuple):
            return {"members": [(key, shape(each)) for key, each in value]}
        if isinstance(value, list):
            return [shape(each) for each in value]
        if isinstance(value, str):
            values.append(value)
            return "value"
        return value

    def load(line: str) -> Any:
        return shape(json.loads(line, object_pairs_hook=tuple, parse_int=str, parse_float=str))

    text = text.removeprefix("\ufeff")
    try:
        return load(text), values
    except json.JSONDecodeError:
        values.clear()
        return [load(line) for line in text.split("\n") if line.strip()], values


def _csv_leaves(text: str) -> tuple[Any, list[str]]:
    text = text.removeprefix("\ufeff")
    first = text.splitlines()[0]
    delimiter = next(mark for mark in ",;\t|" if re.fullmatch(rf'"?column 0"?\{mark}.*', first))
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    return [len(row) for row in rows], [cell for row in rows for cell in row]


class _Events(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.shape: list[Any] = []
        self.values: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.shape.append((tag, [name for name, _ in attrs]))
        self.values += [value or "" for _, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.shape.append(("/", tag))

    def handle_data(self, data: str) -> None:
        if self.shape and self.shape[-1] == "text":
            self.values[-1] += data
        else:
            self.shape.append("text")
            self.values.append(data)

    def handle_comment(self, data: str) -> None:
        self.shape.append("comment")
        self.values.append(data)

    def handle_decl(self, decl: str) -> None:
        self.shape.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.shape.append("declaration")
        self.values.append(data)


def _html_leaves(text: str) -> tuple[Any, list[str]]:
    events = _Events()
    events.feed(text)
    events.close()
    return events.shape, events.values


def _markdown_leaves(text: str) -> tuple[Any, list[str]]:
    values: list[str] = []

    def shape(tokens: list[Token]) -> list[Any]:
        shown: list[Any] = []
        for token in tokens:
            if token.type in ("text", "text_special"):  # an escaped character is a token of its own
                if not (shown and shown[-1] == "text"):
                    shown.append("text")
                    values.append("")
                values[-1] += token.content
                continue
            shown.append((token.type, token.tag, list(token.attrs), shape(token.children or [])))
            values.extend(str(value) for value in token.attrs.values())
            if token.type not in ("inline", "heading_open"):
                values.append(token.content)
        return shown

    return shape(MarkdownIt().enable("table").parse(text.removeprefix("\ufeff"))), values


def _email_leaves(text: str) -> tuple[Any, list[str]]:
    values: list[str] = []
    shape: list[Any] = []
    for part in email.message_from_string(text.removeprefix("\ufeff"), policy=email.policy.default).walk():
        shape.append((part.get_content_type(), part.keys(), part.get("content-transfer-encoding"), part.defects))
        values += [str(part[key]) for key in ("subject",) if key in part]
        if "to" in part:
            shape.append([len(group.addresses) for group in part["to"].groups])
        if not part.is_multipart():
            content = part.get_content()
            shape.append(len(content.splitlines()))
            values.append(content)
    return shape, values


# by format: the structure that its parser sees in a text, and the values in it
LEAVES: dict[str, Callable[[str], tuple[Any, list[str]]]] = {
    "json": _json_leaves, "csv": _csv_leaves, "html": _html_leaves, "markdown": _markdown_leaves,
    "email": _email_leaves,
}  # fmt: skip


def round_trip_fault(document: Document, output: str, *, marked: bool) -> str | None:
    """What is wrong with a sanitised document, in a few words; None if it parses as before and shows no planted value.

    marked: whether fills are markers, by which a changed value is recognised.
    """
    leaves = LEAVES[document.format]
    shape, values = leaves(document.text)
    try:
        new_shape, new_values = leaves(output)
    except Exception as error:  # whatever a parser raises for a text that it cannot read
        return f"unreadable ({type(error).__name__})"
    if shape != new_shape or len(values) != len(new_values):
        return "another structure"
    if marked and any(old != new and not _MARK.search(new) for old, new in zip(values, new_values, strict=True)):
        return "another value"
    if any(value in new for value in PLANTED for new in new_values):
        return "a planted value is left"
    return None

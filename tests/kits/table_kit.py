"""Tables of cases as blocks of text. ` || ` or the end of a line stands between two cases."""

from textwrap import dedent


def _split(block: str) -> list[str]:
    return [case for line in dedent(block).strip("\n").split("\n") for case in line.split(" || ")]


def texts(block: str) -> list[str]:
    """The texts of a block, in which `\\n` and `\\r` stand for ends of lines."""
    return [case.replace("\\n", "\n").replace("\\r", "\r") for case in _split(block)]


def plain(text: str) -> str:
    """The text without the marks around its values."""
    return text.replace("«", "").replace("»", "")


def marked(block: str) -> list[tuple[str, str]]:
    """The texts of a block without marks, each with the value that stands between `«` and `»`."""
    return [(plain(text), text.partition("«")[2].partition("»")[0]) for text in texts(block)]


def rows(block: str) -> list[tuple[str, ...]]:
    """The texts of a block as tuples of the cells that ` | ` separates."""
    return [tuple(text.split(" | ")) for text in texts(block)]

"""Allow lists: words that an operator considers safe to keep.

A list is a text file of words, one or more on a line; `#` starts a comment. The package ships `general`. An operator's
directory adds `<name>.txt` files and may replace a shipped one. Names never come from a path of the caller.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from core.errors import InvalidInput
from core.mechanisms.words.normal_form import normal
from core.text.policy import ALLOW_LIST_NAME

_SHIPPED = Path(__file__).parent / "data"


@cache
def _words(path: Path) -> frozenset[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(normal(word) for line in lines for word in line.split("#", 1)[0].split())


class AllowLists:
    """The lists of this installation. `directory` is the operator's; each list is read once."""

    def __init__(self, directory: Path | None = None) -> None:
        self._paths: dict[str, Path] = {}
        for folder in (_SHIPPED, directory):
            if folder is not None:
                for path in sorted(folder.glob("*.txt")):
                    if ALLOW_LIST_NAME.fullmatch(path.stem):
                        self._paths[path.stem] = path

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._paths))

    def words(self, name: str) -> frozenset[str]:
        """Return the words of a list. Raises InvalidInput if it does not exist."""
        path = self._paths.get(name)
        if path is None:
            raise InvalidInput(f"There is no such allow list. Available: {', '.join(self.names)}.", field="allow_list")
        return _words(path)

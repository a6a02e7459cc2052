"""Pieces of Python's standard library, as text that names nobody, for training the entity tagger.

Comments and docstrings may name people, and tests hold passwords, so that both are left out.
"""

import random
import sysconfig
import tokenize
from pathlib import Path

_LINES_MAX = 12
_CHARACTERS_MAX = 900


def _code(path: Path) -> list[str]:
    """Return the lines without those of comments and of strings over several lines."""
    left_out: set[int] = set()
    with tokenize.open(path) as stream:
        lines = stream.read().splitlines()
    with path.open("rb") as binary:
        for token in tokenize.tokenize(binary.readline):
            several = token.type == tokenize.STRING and token.start[0] != token.end[0]
            if token.type == tokenize.COMMENT or several or token.string.startswith(('"""', 'r"""')):
                left_out.update(range(token.start[0], token.end[0] + 1))
    return [line for number, line in enumerate(lines, 1) if line.strip() and number not in left_out]


class CodeLines:
    """`draw` depends on the generator alone, for one version of Python."""

    def __init__(self) -> None:
        folder = Path(sysconfig.get_path("stdlib"))
        self._files = [lines for path in sorted(folder.glob("*.py")) if len(lines := _code(path)) > _LINES_MAX]

    def draw(self, rng: random.Random) -> str:
        lines = rng.choice(self._files)
        start = rng.randrange(len(lines) - _LINES_MAX)
        return "\n".join(lines[start : start + rng.randint(1, _LINES_MAX)])[:_CHARACTERS_MAX]

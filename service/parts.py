"""The parts of one gateway, by their type, and how an endpoint asks for one.

A part is a service, a store or another object of which a gateway has one: `parts[Ledger]`. An endpoint names the parts
that it uses in its signature, as `Part[Ledger]`. Everything else takes its parts as arguments of its constructor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, Request

T = TypeVar("T")


class Parts:
    """The parts of one gateway. Used by one thread at a time."""

    def __init__(self) -> None:
        self._builds: dict[type, Callable[[Parts], Any]] = {}
        self._built: dict[type, Any] = {}
        self._unfinished: list[type] = []

    def offer(self, builds: Mapping[type, Callable[[Parts], Any]]) -> None:
        """Say how parts are built. Each is built once, when it is first asked for, from the parts that it asks for
        itself. Raises ValueError for a type that is offered already."""
        twice = builds.keys() & self._builds.keys()
        if twice:
            raise ValueError(f"offered twice: {_names(twice)}")
        self._builds |= builds

    def build(self) -> None:
        """Build every part that is offered. Raises the errors of their constructors."""
        for kind in self._builds:
            self.find(kind)

    def __getitem__(self, kind: type[T]) -> T:
        """Raises LookupError for a part that this gateway does not have, and for parts that need each other."""
        part = self.find(kind)
        if part is None:
            raise LookupError(f"this gateway has no {kind.__name__}")
        return part

    def find(self, kind: type[T]) -> T | None:
        """The part, or None where the settings leave it out. Raises LookupError as `parts[kind]`."""
        if kind not in self._built:
            if kind not in self._builds:
                raise LookupError(f"nobody offers {kind.__name__}")
            if kind in self._unfinished:
                raise LookupError(f"these parts need each other: {_names([*self._unfinished, kind])}")
            self._unfinished.append(kind)
            try:
                self._built[kind] = self._builds[kind](self)
            finally:
                self._unfinished.pop()
        part: T | None = self._built[kind]
        return part


def _names(kinds: Iterable[type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds)


def parts_of(request: Request) -> Parts:
    """The parts of the gateway that serves a request."""
    parts: Parts = request.app.state.parts
    return parts


@cache
def _part_of(kind: type) -> Any:
    async def part(request: Request) -> Any:
        return parts_of(request)[kind]

    return Depends(part)


if TYPE_CHECKING:
    Part = Annotated[T, "of the gateway"]
else:

    class Part:
        """`Part[X]` in the signature of an endpoint is the gateway's X."""

        def __class_getitem__(cls, kind: type) -> Any:
            return Annotated[kind, _part_of(kind)]

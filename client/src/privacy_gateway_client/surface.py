"""From an operation to a method of a client."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from typing_extensions import Self

from privacy_gateway_client.core import Core
from privacy_gateway_client.drivers import BlockingDriver
from privacy_gateway_client.effects import Op

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
Operation = Callable[Concatenate[Core, P], Op[T]]


class Owner(Protocol):
    """A client or a space of one."""

    _core: Core
    _driver: Any


class Emits(Generic[T]):
    """The type of what an operation emits."""


class Method(Generic[P, R]):
    """A method of a client. Its documentation and signature are those of the operation."""

    def __init__(self, operation: Operation[P, Any], run: Callable[[Any, Op[Any]], R]) -> None:
        self.operation, self._run = operation, run
        self.__doc__ = operation.__doc__
        self.__name__ = getattr(operation, "__name__", "")

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self.operation)
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    @overload
    def __get__(self, owner: None, kind: Any) -> Self: ...
    @overload
    def __get__(self, owner: Owner, kind: Any) -> Callable[P, R]: ...
    def __get__(self, owner: Owner | None, kind: Any) -> Self | Callable[P, R]:
        if owner is None:
            return self
        return functools.partial(self, owner)

    def __call__(self, owner: Owner, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._run(owner._driver, self.operation(owner._core, *args, **kwargs))


def blocking(operation: Operation[P, T]) -> Method[P, T]:
    """A method that waits for the operation."""
    return Method(operation, BlockingDriver.run)


def listing(operation: Operation[P, None], _: Emits[T]) -> Method[P, Iterator[T]]:
    """A method that iterates over what the operation emits."""
    return Method(operation, BlockingDriver.iterate)
